/* The switch's decision function (docs/inside/protocol §4; paper Fig. 7 and Fig. 17, made uniform
 * over levels): ONE header for the user space switch, the virtual network and eBPF, in the C
 * subset that g++ and `clang -target bpf` both compile.
 *
 * It decides from metadata alone what one packet does to one aggregator, and where the packet goes.
 * It never reads a value: a sum's magnitude shows whether the sum fits its integers. The verdict
 * names one of four loops over the values (store, combine, combine and load, load), which each
 * engine implements, adding or taking the maximum as the fragment's kind says. One packet in gives
 * at most one out, apart from multicast: the incoming fragment is rewritten in place into the
 * outgoing one.
 *
 * Assumed: the packet was parsed (packet_view.h or an equivalent), so bitmap_words is 1 … 16; the
 * engine has looked up the job's tree, the ranks behind the sender and, among the places of the
 * packet's index, the aggregator to decide on and whether it `has` the packet's fragment
 * (atp_has_fragment()); and no other thread touches these places meanwhile.
 *
 * Invariant: what a home notes as returned never goes back in its stream (aggregator.h has the
 * others). */
#ifndef ATP_CORE_DATAPLANE_PIPELINE_H
#define ATP_CORE_DATAPLANE_PIPELINE_H

#include "atp/core/dataplane/aggregator.h"

/* What the engine does with the values; p: the packet's, a: the aggregator's. */
enum atp_data_op {
  ATP_DATA_NONE = 0,         /* p, if forwarded, keeps its values */
  ATP_DATA_STORE = 1,        /* a = p */
  ATP_DATA_COMBINE = 2,      /* a = a + p modulo the lane's size, or max(a, p), by the kind */
  ATP_DATA_COMBINE_LOAD = 3, /* the same; p = a */
  ATP_DATA_LOAD = 4          /* p = a */
};

enum atp_forward {
  ATP_FORWARD_NOWHERE = 0, /* consumed or dropped, as the reason says */
  ATP_FORWARD_PARENT = 1,
  ATP_FORWARD_CHILDREN = 2 /* those whose ranks are addressed */
};

/* The rule that decided. Engines count each under a name of its own. */
enum atp_reason {
  /* GRADIENT, dropped: up to ATP_LAST_DROP */
  ATP_DROP_BITMAP_WIDTH = 0, /* not the width of the job */
  ATP_DROP_VALUE_COUNT,      /* more than the agreed K carries */
  ATP_DROP_EMPTY_BITMAP,     /* nobody's contribution */
  ATP_DROP_FOREIGN_RANKS,    /* bits that are not the sender's (H25, H26) */
  ATP_LAST_DROP = ATP_DROP_FOREIGN_RANKS,
  /* GRADIENT, forwarded as DIRECT, past the aggregators */
  ATP_PASS_DIRECT,       /* it came with DIRECT, or its values are floats */
  ATP_PASS_DETACHED,     /* a detached rank is in it */
  ATP_PASS_BEYOND_LIMIT, /* its sequence is further ahead than a window allows */
  ATP_PASS_SHAPE,        /* more values than fit here, or a number or kind that is not the sum's */
  ATP_PASS_OVERLAP,      /* some of its ranks are in the sum, others are not (H4) */
  /* GRADIENT, forwarded as it is */
  ATP_PASS_LATE,            /* released or flushed already: never claims again (H5, H6) */
  ATP_PASS_RESEND,          /* nothing to flush here */
  ATP_PASS_AFTER_COLLISION, /* an earlier contribution of its fragment found no place and passed */
  ATP_PASS_NO_REGION,       /* the job has no aggregators here */
  ATP_PASS_OVER_QUOTA,      /* the job holds as many as it may */
  ATP_PASS_COLLISION,       /* others hold all of its places */
  ATP_PASS_OPERATION_MISMATCH, /* only the operation differs from a sum's (H31) */
  /* GRADIENT, consumed */
  ATP_CLAIMED,
  ATP_ADDED,
  ATP_DUPLICATE, /* dropped: it is in the sum already */
  /* GRADIENT, the sum leaves */
  ATP_COMPLETED,
  ATP_REPEATED,     /* a duplicate of a complete sum: something further up was lost */
  ATP_SENT_PARTIAL, /* RESEND asked for the partial sum */
  /* PARAMETER */
  ATP_RELEASED,
  ATP_MARKED,    /* noted as returned */
  ATP_MARK_KEPT, /* a later one of the stream is noted */
  ATP_RECLAIMED, /* another identity, unused for too long, made room (paper §3.7) */
  /* FLUSH */
  ATP_FLUSHED,
  ATP_FLUSH_PASSED,
  /* The sweep */
  ATP_SWEPT,
  ATP_KEPT,
  ATP_REASONS
};

struct atp_verdict {
  atp_u8 data;    /* atp_data_op */
  atp_u8 forward; /* atp_forward */
  atp_u8 reason;  /* atp_reason */
};

/* ---- helpers ---- */

ATP_PIPELINE struct atp_verdict atp_verdict_of(enum atp_data_op data, enum atp_forward forward,
                                               enum atp_reason reason) {
  struct atp_verdict v;
  v.data = (atp_u8)data;
  v.forward = (atp_u8)forward;
  v.reason = (atp_u8)reason;
  return v;
}

ATP_PIPELINE struct atp_verdict atp_drop(enum atp_reason reason) {
  return atp_verdict_of(ATP_DATA_NONE, ATP_FORWARD_NOWHERE, reason);
}

ATP_PIPELINE struct atp_verdict atp_pass(enum atp_reason reason) {
  return atp_verdict_of(ATP_DATA_NONE, ATP_FORWARD_PARENT, reason);
}

/* Forwards p past all further aggregators, so that no later switch repeats this decision. */
ATP_PIPELINE struct atp_verdict atp_pass_direct(struct atp_fragment *p, enum atp_reason reason) {
  p->header.flags = (atp_u8)(p->header.flags | ATP_FLAG_DIRECT);
  return atp_pass(reason);
}

/* Forwards p because it gets no place. Its fragment's other contributions pass as well: one that
 * claimed would wait in vain for this one. */
ATP_PIPELINE struct atp_verdict atp_pass_noted(struct atp_aggregator *home, struct atp_fragment *p,
                                               enum atp_reason reason) {
  p->header.flags = (atp_u8)(p->header.flags | ATP_FLAG_COLLISION);
  atp_note_passed(home, &p->header);
  return atp_pass(reason);
}

/* The partial sum leaves as RESEND, so that partial sums further up leave with it (H8). */
ATP_PIPELINE struct atp_verdict atp_emit_and_release(struct atp_aggregator *a,
                                                     struct atp_aggregator *home,
                                                     struct atp_fragment *p, enum atp_data_op data,
                                                     enum atp_reason reason) {
  atp_write_sum(a, p, ATP_FLAG_RESEND);
  atp_release(a, home);
  return atp_verdict_of(data, ATP_FORWARD_PARENT, reason);
}

/* ---- GRADIENT ---- */

/* The rows of the table in which the aggregator holds p's identity. */
ATP_PIPELINE struct atp_verdict atp_meet_same(struct atp_aggregator *a, struct atp_aggregator *home,
                                              const struct atp_tree_entry *t, atp_u64 now,
                                              struct atp_fragment *p) {
  const int resend = (p->header.flags & ATP_FLAG_RESEND) != 0;

  /* Only for senders that break the protocol: operations of another shape differ in fingerprint. */
  if (a->bitmap_words != p->header.bitmap_words || a->value_count != p->header.value_count ||
      a->kind != p->header.kind) {
    return atp_pass_direct(p, ATP_PASS_SHAPE);
  }
  if (atp_bitmap_disjoint(a->bitmap, p->bitmap, a->bitmap_words)) {
    atp_join_sum(a, p, now);
    if (resend) return atp_emit_and_release(a, home, p, ATP_DATA_COMBINE_LOAD, ATP_SENT_PARTIAL);
    if (!atp_complete(a, t)) {
      return atp_verdict_of(ATP_DATA_COMBINE, ATP_FORWARD_NOWHERE, ATP_ADDED);
    }
    atp_write_sum(a, p, 0);
    return atp_verdict_of(ATP_DATA_COMBINE_LOAD, ATP_FORWARD_PARENT, ATP_COMPLETED);
  }
  if (atp_bitmap_within(p->bitmap, a->bitmap, a->bitmap_words)) {
    if (resend) return atp_emit_and_release(a, home, p, ATP_DATA_LOAD, ATP_SENT_PARTIAL);
    a->last_use = now;
    a->flags = (atp_u8)(a->flags | (p->header.flags & ATP_FLAG_ECN));
    if (!atp_complete(a, t)) return atp_drop(ATP_DUPLICATE);
    atp_write_sum(a, p, 0);
    return atp_verdict_of(ATP_DATA_LOAD, ATP_FORWARD_PARENT, ATP_REPEATED);
  }
  return atp_pass_direct(p, ATP_PASS_OVERLAP);
}

/* The rows in which the aggregator is EMPTY. */
ATP_PIPELINE struct atp_verdict atp_meet_empty(struct atp_aggregator *a,
                                               struct atp_aggregator *home,
                                               const struct atp_tree_entry *t,
                                               const struct atp_share *s, atp_u64 now,
                                               struct atp_fragment *p) {
  if ((p->header.flags & ATP_FLAG_RESEND) != 0) return atp_pass(ATP_PASS_RESEND);
  /* Otherwise it would wait here for contributions that were forwarded. */
  if (home->any_passed && atp_same_identity(&home->passed, &p->header))
    return atp_pass(ATP_PASS_AFTER_COLLISION);
  if (s->held >= s->quota) return atp_pass_noted(home, p, ATP_PASS_OVER_QUOTA);
  atp_claim(a, t, p, now);
  if (!atp_complete(a, t)) {
    return atp_verdict_of(ATP_DATA_STORE, ATP_FORWARD_NOWHERE, ATP_CLAIMED);
  }
  return atp_verdict_of(ATP_DATA_STORE, ATP_FORWARD_PARENT, ATP_COMPLETED);
}

/* Whether p may reach an aggregator at all: yes if the reason is ATP_REASONS. */
ATP_PIPELINE struct atp_verdict atp_admit(const struct atp_tree_entry *t, const atp_u64 *child,
                                          atp_u64 sequence_limit, struct atp_fragment *p) {
  const struct atp_header *h = &p->header;

  if (h->bitmap_words != t->bitmap_words) return atp_drop(ATP_DROP_BITMAP_WIDTH);
  if (t->value_count != 0 && h->value_count > atp_most_values(h->kind, t->value_count)) {
    return atp_drop(ATP_DROP_VALUE_COUNT);
  }
  if (atp_bitmap_empty(p->bitmap, h->bitmap_words)) return atp_drop(ATP_DROP_EMPTY_BITMAP);
  if (!atp_bitmap_within(p->bitmap, child, h->bitmap_words)) {
    return atp_drop(ATP_DROP_FOREIGN_RANKS);
  }

  if ((h->flags & (ATP_FLAG_DIRECT | ATP_FLAG_FLOAT)) != 0 || h->kind == ATP_KIND_SUM_EXACT) {
    return atp_pass_direct(p, ATP_PASS_DIRECT);
  }
  if (!atp_bitmap_disjoint(p->bitmap, t->detached, h->bitmap_words)) {
    return atp_pass_direct(p, ATP_PASS_DETACHED);
  }
  /* A forged sequence far ahead, noted as returned, would keep honest fragments from claiming. */
  if (sequence_limit != 0 && h->sequence > sequence_limit) {
    return atp_pass_direct(p, ATP_PASS_BEYOND_LIMIT);
  }
  if (h->value_count > atp_most_values(h->kind, t->value_limit)) {
    return atp_pass_direct(p, ATP_PASS_SHAPE);
  }
  return atp_verdict_of(ATP_DATA_NONE, ATP_FORWARD_NOWHERE, ATP_REASONS);
}

/* The highest sequence that a stream may carry when `parameter` is the highest sequence whose
 * PARAMETER has passed. A worker is at most Wmax ahead of the last complete fragment, and if
 * PARAMETERs were lost, this switch may be Wmax behind the server. */
ATP_PIPELINE atp_u64 atp_sequence_limit(atp_u64 parameter, atp_u32 wmax) {
  const atp_u64 limit = parameter + 2 * (atp_u64)wmax;
  return limit < parameter ? ~(atp_u64)0 : limit;
}

/* The home of a fragment in its job's region, which must not be empty. Jobs of two tenants that
 * have the same number and incarnation name the same indices, so each tenant's begin elsewhere. */
ATP_PIPELINE atp_u32 atp_home(const struct atp_share *s, atp_u32 index, atp_u16 tenant) {
  return s->first + atp_slot_of_index(index + tenant * 0x9e3779b9U, s->size);
}

/* Decides on GRADIENT p from a child; `child`: the ranks behind it. sequence_limit 0: unknown. If
 * the job's region is empty, `a` and `home` may be any; they are not touched. */
ATP_PIPELINE struct atp_verdict atp_on_gradient(struct atp_aggregator *a,
                                                struct atp_aggregator *home, int has,
                                                const struct atp_tree_entry *t,
                                                const struct atp_share *s, const atp_u64 *child,
                                                atp_u64 sequence_limit, atp_u64 now,
                                                struct atp_fragment *p) {
  const struct atp_verdict admitted = atp_admit(t, child, sequence_limit, p);
  if (admitted.reason != ATP_REASONS) return admitted;
  if (s->size == 0) return atp_pass(ATP_PASS_NO_REGION);

  if (has) {
    if (a->identity.operation == p->header.operation) return atp_meet_same(a, home, t, now, p);
    p->header.flags = (atp_u8)(p->header.flags | ATP_FLAG_COLLISION);
    return atp_pass(ATP_PASS_OPERATION_MISMATCH);
  }
  if (atp_has_returned(home, &p->header)) return atp_pass(ATP_PASS_LATE);
  if (a->state == ATP_EMPTY) return atp_meet_empty(a, home, t, s, now, p);
  /* Others hold all places: the next level or the server adds it (paper §3.6). */
  return atp_pass_noted(home, p, ATP_PASS_COLLISION);
}

/* ---- downward, from the parent only ---- */

/* A PARAMETER always goes on to the children and may free its aggregator. If this returns true, an
 * engine that can emit more than one packet emits the aggregator's sum before atp_on_parameter().
 */
ATP_PIPELINE int atp_parameter_reclaims(const struct atp_aggregator *a, int has,
                                        const struct atp_header *h, atp_u64 now, atp_u64 reclaim) {
  if (has && a->identity.operation == h->operation) return 0;
  return atp_expired(a, now, reclaim);
}

/* `home`: of h's fragment; `holder_home`: of what `a` holds, null if its job has no region. */
ATP_PIPELINE struct atp_verdict atp_on_parameter(struct atp_aggregator *a,
                                                 struct atp_aggregator *home, int has,
                                                 struct atp_aggregator *holder_home,
                                                 const struct atp_header *h, atp_u64 now,
                                                 atp_u64 reclaim) {
  enum atp_reason reason;
  struct atp_identity i;
  if (has && a->identity.operation == h->operation) {
    atp_release(a, home);
    reason = ATP_RELEASED;
  } else if (atp_parameter_reclaims(a, has, h, now, reclaim)) {
    atp_release(a, holder_home);
    reason = ATP_RECLAIMED;
  } else {
    atp_set_identity(&i, h);
    reason = atp_note_returned(home, &i) ? ATP_MARKED : ATP_MARK_KEPT;
  }
  return atp_verdict_of(ATP_DATA_NONE, ATP_FORWARD_CHILDREN, reason);
}

/* A FLUSH turns into the partial sum that it asks for, or goes on to the children (H7). */
ATP_PIPELINE struct atp_verdict atp_on_flush(struct atp_aggregator *a, struct atp_aggregator *home,
                                             int has, struct atp_fragment *p) {
  /* A FLUSH whose sender has seen nothing of the fragment names no operation. */
  const atp_u32 operation = p->header.operation;
  if (!has || (operation != 0 && operation != a->identity.operation)) {
    return atp_verdict_of(ATP_DATA_NONE, ATP_FORWARD_CHILDREN, ATP_FLUSH_PASSED);
  }
  return atp_emit_and_release(a, home, p, ATP_DATA_LOAD, ATP_FLUSHED);
}

/* ---- the sweep ---- */

/* Releases an aggregator unused for the reclaim time; p becomes its sum (H29). `home`: of what it
 * holds, null if its job has no region any more. */
ATP_PIPELINE struct atp_verdict atp_on_sweep(struct atp_aggregator *a, struct atp_aggregator *home,
                                             atp_u64 now, atp_u64 reclaim, struct atp_fragment *p) {
  if (!atp_expired(a, now, reclaim)) return atp_drop(ATP_KEPT);
  return atp_emit_and_release(a, home, p, ATP_DATA_LOAD, ATP_SWEPT);
}

#endif
