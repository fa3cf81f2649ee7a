/* The data of the decision function (pipeline.h): an aggregator of a switch, a job's tree and
 * share, a fragment, and the small steps on them. C for every engine, eBPF included.
 *
 * Invariants: bitmap, kind and magnitude always describe exactly the values held. An EMPTY
 * aggregator has its two notes and nothing else, so equal states are equal bytes. */
#ifndef ATP_CORE_DATAPLANE_AGGREGATOR_H
#define ATP_CORE_DATAPLANE_AGGREGATOR_H

#include "atp/wire/packet.h"

/* Words of every bitmap in memory; those beyond the width of a job are zero. A constant, so that
 * copies need no memcpy of unknown length; an engine for small jobs may define it smaller. */
#ifndef ATP_PIPELINE_WORDS
#define ATP_PIPELINE_WORDS ATP_BITMAP_WORDS_MAX
#endif

/* Copies take every word; set algebra takes only the words of the job's width, one for nearly every
 * job. In BPF every loop takes all words, because the verifier needs a known length; the loops are
 * not unrolled, because 16 words would spill more than its stack holds. */
#ifdef __bpf__
#define ATP_EACH_WORD(w) \
  _Pragma("clang loop unroll(disable)") for (w = 0; w < ATP_PIPELINE_WORDS; ++w)
#define ATP_EACH_WORD_OF(w, words) \
  (void)(words);                   \
  ATP_EACH_WORD(w)
#else
#define ATP_EACH_WORD(w) for (w = 0; w < ATP_PIPELINE_WORDS; ++w)
#define ATP_EACH_WORD_OF(w, words) for (w = 0; w < (words); ++w)
#endif

/* BPF programs inline everything, because a BPF call takes at most five arguments. */
#define ATP_PIPELINE static inline __attribute__((always_inline))

enum atp_aggregator_state { ATP_EMPTY = 0, ATP_AGGREGATING = 1 };

/* Two packets belong to the same fragment only if all of this agrees. */
struct atp_identity {
  atp_u64 sequence;
  atp_u32 job;
  atp_u32 incarnation;
  atp_u32 operation;
  atp_u16 stream;
  atp_u16 tenant;
};

struct atp_aggregator {
  struct atp_identity identity; /* of what it holds */
  atp_u64 last_use;             /* ns */
  atp_u32 aggregator_index;     /* as in the packets */
  atp_u32 magnitude;
  atp_u16 value_count;
  atp_u8 bitmap_words;
  atp_u8 state;
  atp_u8 flags; /* COLLISION, ECN, OVERFLOW: ORed from every packet added */
  atp_u8 kind;
  atp_u16 share; /* the share of the job that holds it */
  atp_u8 hops;   /* the minimum that any contribution had left */
  /* The notes, about fragments whose home this is, wherever they are held; if there are any. */
  atp_u8 any_returned;
  atp_u8 any_passed;
  atp_u8 zero[5];
  struct atp_identity returned; /* the last one that was released or whose PARAMETER came */
  struct atp_identity passed;   /* the last one that found no place */
  atp_u64 bitmap[ATP_PIPELINE_WORDS];
};

/* What the pipeline needs from a job's tree at this switch. */
struct atp_tree_entry {
  atp_u64 members[ATP_PIPELINE_WORDS];  /* the member mask: a sum with all of them is complete */
  atp_u64 detached[ATP_PIPELINE_WORDS]; /* behind a child, but sending past all switches */
  atp_u16 value_count;                  /* the agreed K; 0 until a JOIN_ACK has passed */
  atp_u16 value_limit;                  /* the largest K that an aggregator here has room for */
  atp_u8 bitmap_words;
  atp_u8 zero;
  atp_u16 share; /* number of the job's share */
};

/* A job's share of a switch's aggregators: a region of them, and how many it may hold at a time.
 * With first come, first served, every job's share is all aggregators, and so is its quota. */
struct atp_share {
  atp_u32 first; /* aggregator of the region */
  atp_u32 size;  /* 0: when the job came, all regions were taken */
  atp_u32 quota;
  atp_u32 held; /* counted by the engine: +1 per claim, -1 per release of one of the job's */
};

struct atp_fragment {
  struct atp_header header;
  atp_u64 bitmap[ATP_PIPELINE_WORDS];
};

ATP_PIPELINE int atp_same_stream(const struct atp_identity *i, const struct atp_header *h) {
  return i->job == h->job && i->incarnation == h->incarnation && i->stream == h->stream &&
         i->tenant == h->tenant;
}

ATP_PIPELINE int atp_same_identity(const struct atp_identity *i, const struct atp_header *h) {
  return atp_same_stream(i, h) && i->sequence == h->sequence && i->operation == h->operation;
}

/* Whether the aggregator holds h's fragment, perhaps as another operation. An engine looks for it
 * among the fragment's places: the one that has it is the one to decide on. If none has, it is the
 * first EMPTY one, or if there is none, the home. */
ATP_PIPELINE int atp_has_fragment(const struct atp_aggregator *a, const struct atp_header *h) {
  return a->identity.sequence == h->sequence && a->state == ATP_AGGREGATING &&
         atp_same_stream(&a->identity, h);
}

ATP_PIPELINE void atp_set_identity(struct atp_identity *i, const struct atp_header *h) {
  i->sequence = h->sequence;
  i->job = h->job;
  i->incarnation = h->incarnation;
  i->operation = h->operation;
  i->stream = h->stream;
  i->tenant = h->tenant;
}

/* In all of these, `words` is the job's bitmap width. */
ATP_PIPELINE int atp_bitmap_empty(const atp_u64 *set, atp_u32 words) {
  atp_u64 any = 0;
  atp_u32 w;
  ATP_EACH_WORD_OF(w, words) any |= set[w];
  return any == 0;
}

ATP_PIPELINE int atp_bitmap_disjoint(const atp_u64 *a, const atp_u64 *b, atp_u32 words) {
  atp_u64 any = 0;
  atp_u32 w;
  ATP_EACH_WORD_OF(w, words) any |= a[w] & b[w];
  return any == 0;
}

/* Whether every rank of `part` is in `whole`. */
ATP_PIPELINE int atp_bitmap_within(const atp_u64 *part, const atp_u64 *whole, atp_u32 words) {
  atp_u64 any = 0;
  atp_u32 w;
  ATP_EACH_WORD_OF(w, words) any |= part[w] & ~whole[w];
  return any == 0;
}

/* The flags that stick to a sum. */
#define ATP_FLAGS_STICKY (ATP_FLAG_COLLISION | ATP_FLAG_ECN | ATP_FLAG_OVERFLOW)

ATP_PIPELINE int atp_is_later(const struct atp_identity *a, const struct atp_identity *b) {
  return a->sequence > b->sequence && a->job == b->job && a->incarnation == b->incarnation &&
         a->stream == b->stream && a->tenant == b->tenant;
}

/* Whether this is noted at its home as returned, or a later fragment of its stream is. */
ATP_PIPELINE int atp_has_returned(const struct atp_aggregator *home, const struct atp_header *h) {
  const struct atp_identity *noted = &home->returned;
  return home->any_returned && atp_same_stream(noted, h) &&
         (noted->sequence > h->sequence ||
          (noted->sequence == h->sequence && noted->operation == h->operation));
}

/* Notes it as returned, unless a later one of its stream is noted. Returns whether it did. */
ATP_PIPELINE int atp_note_returned(struct atp_aggregator *home, const struct atp_identity *i) {
  if (home->any_returned && atp_is_later(&home->returned, i)) return 0;
  home->returned = *i;
  home->any_returned = 1;
  return 1;
}

ATP_PIPELINE void atp_note_passed(struct atp_aggregator *home, const struct atp_header *h) {
  atp_set_identity(&home->passed, h);
  home->any_passed = 1;
}

/* `home`: of the fragment that it holds; null if its job has no region any more. */
ATP_PIPELINE void atp_release(struct atp_aggregator *a, struct atp_aggregator *home) {
  const struct atp_identity none = {0};
  atp_u32 w;
  if (home) atp_note_returned(home, &a->identity);
  a->identity = none;
  a->state = ATP_EMPTY;
  a->last_use = 0;
  a->aggregator_index = 0;
  a->magnitude = 0;
  a->value_count = 0;
  a->flags = 0;
  a->share = 0;
  a->kind = 0;
  a->hops = 0;
  ATP_EACH_WORD(w) a->bitmap[w] = 0;
  a->bitmap_words = 0;
}

ATP_PIPELINE void atp_claim(struct atp_aggregator *a, const struct atp_tree_entry *t,
                            const struct atp_fragment *p, atp_u64 now) {
  atp_u32 w;
  atp_set_identity(&a->identity, &p->header);
  a->state = ATP_AGGREGATING;
  a->last_use = now;
  a->aggregator_index = p->header.aggregator_index;
  a->magnitude = p->header.magnitude;
  a->value_count = p->header.value_count;
  a->bitmap_words = p->header.bitmap_words;
  a->flags = (atp_u8)(p->header.flags & ATP_FLAGS_STICKY);
  a->share = t->share;
  a->kind = p->header.kind;
  a->hops = p->header.hops;
  ATP_EACH_WORD(w) a->bitmap[w] = p->bitmap[w];
}

ATP_PIPELINE void atp_join_sum(struct atp_aggregator *a, const struct atp_fragment *p,
                               atp_u64 now) {
  atp_u32 w;
  a->last_use = now;
  a->magnitude = atp_add_magnitude(a->magnitude, p->header.magnitude);
  a->flags = (atp_u8)(a->flags | (p->header.flags & ATP_FLAGS_STICKY));
  if (p->header.hops < a->hops) a->hops = p->header.hops;
  ATP_EACH_WORD_OF(w, p->header.bitmap_words) a->bitmap[w] |= p->bitmap[w];
}

/* Makes p the GRADIENT that carries the aggregator's sum; the engine loads the values into it. */
ATP_PIPELINE void atp_write_sum(const struct atp_aggregator *a, struct atp_fragment *p,
                                atp_u8 more_flags) {
  struct atp_header *h = &p->header;
  atp_u32 w;
  h->version = ATP_VERSION;
  h->type = ATP_GRADIENT;
  h->flags = (atp_u8)(a->flags | more_flags);
  h->bitmap_words = a->bitmap_words;
  h->job = a->identity.job;
  h->incarnation = a->identity.incarnation;
  h->stream = a->identity.stream;
  h->value_count = a->value_count;
  h->sequence = a->identity.sequence;
  h->aggregator_index = a->aggregator_index;
  h->operation = a->identity.operation;
  h->magnitude = a->magnitude;
  h->next_index = 0;
  h->kind = a->kind;
  h->hops = a->hops;
  h->tenant = a->identity.tenant;
  ATP_EACH_WORD(w) p->bitmap[w] = a->bitmap[w];
}

/* Complete: every rank of the member mask is in the bitmap. A set, not a counter (H24). */
ATP_PIPELINE int atp_complete(const struct atp_aggregator *a, const struct atp_tree_entry *t) {
  return atp_bitmap_within(t->members, a->bitmap, t->bitmap_words);
}

/* Whether it has been unused for longer than the reclaim time. The clocks of two CPUs may differ a
 * little, so last_use may be in the future. */
ATP_PIPELINE int atp_expired(const struct atp_aggregator *a, atp_u64 now, atp_u64 reclaim) {
  return a->state == ATP_AGGREGATING && now > a->last_use && now - a->last_use > reclaim;
}

#endif
