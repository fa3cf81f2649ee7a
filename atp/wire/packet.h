/* The packet format, wire version 2 (docs/inside/protocol §3): ONE header for the C++ core, the
 * user space switch and eBPF, hence in the C subset that g++ and `clang -target bpf` both compile,
 * with no include of its own. The wire is in network byte order; atp_header holds the header in
 * host byte order. Callers check the length first: 40 bytes of header, then 8 bytes per bitmap
 * word, then the values or a control body. */
#ifndef ATP_WIRE_PACKET_H
#define ATP_WIRE_PACKET_H

typedef __UINT8_TYPE__ atp_u8;
typedef __UINT16_TYPE__ atp_u16;
typedef __UINT32_TYPE__ atp_u32;
typedef __UINT64_TYPE__ atp_u64;

#define ATP_VERSION 2
#define ATP_HEADER_BYTES 40
#define ATP_BITMAP_WORDS_MAX 16
/* K is counted in values of four bytes; a fragment of two-byte values has up to 2K of them. */
#define ATP_VALUES_MAX 2226 /* fits a 9000 byte MTU; never more, not even on loopback */
/* How many nodes may forward a packet: twice the longest route. */
#define ATP_HOPS 16
/* What a job with a key adds to each packet: the number of the key, and 64 bits of tag. */
#define ATP_TAG_WORDS 3
#define ATP_TAG_BYTES 12
/* Two tenants may use the same job number. So the driver of a node with keys checks and removes the
 * tag, and writes the number of its tenant in the place of tag_words; before it sends a packet, it
 * makes the tag of the tenant that stands there. Drivers write this one if the byte that must be 0
 * is not. */
#define ATP_TENANT_INVALID 0xffff
#define ATP_DEFAULT_SERVER_PORT 5500
#define ATP_DEFAULT_SWITCH_PORT 5501

enum atp_packet_type {
  ATP_GRADIENT = 0,
  ATP_PARAMETER = 1,
  ATP_FLUSH = 2,
  ATP_NACK = 3,
  ATP_JOIN = 4,
  ATP_JOIN_ACK = 5,
  ATP_LEAVE = 6,
  ATP_STATUS = 7,
  ATP_PACKET_TYPES = 8
};

enum atp_packet_flag {
  ATP_FLAG_RESEND = 1,
  ATP_FLAG_DIRECT = 2, /* no switch may merge it */
  ATP_FLAG_COLLISION = 4,
  ATP_FLAG_ECN = 8,
  ATP_FLAG_OVERFLOW = 16,
  ATP_FLAG_FLOAT = 32, /* values are IEEE-754 float32 */
  ATP_FLAGS_KNOWN = 63
};

/* What the values of a fragment are, and how two contributions are combined. A sum keeps its kind
 * at every level; fragments of different kinds are never combined. */
enum atp_kind {
  /* bit 0: the reduction */
  ATP_KIND_SUM = 0,
  ATP_KIND_MAX = 1,
  /* bits 1 and 2: the lanes, each in network byte order */
  ATP_KIND_INT32 = 0,
  ATP_KIND_INT16 = 2,
  ATP_KIND_FLOAT32 = 4, /* nobody but the server may add them */
  /* bits 3 and 4: what an integer stands for */
  ATP_KIND_PLAIN = 0,   /* itself */
  ATP_KIND_FIXED = 8,   /* a multiple of the job's scale; the magnitude says whether the sum fits */
  ATP_KIND_BLOCKS = 16, /* a multiple of its block's unit, chosen so that every sum fits */
  ATP_KIND_EXACT = 24,  /* floats from the start */

  /* Every bit that has a meaning. */
  ATP_KIND_SUM_PLAIN = 0,
  ATP_KIND_MAX_PLAIN = 1,
  ATP_KIND_EXPONENTS = 3, /* max of plain int16 */
  ATP_KIND_SUM_FIXED = 8,
  ATP_KIND_SUM_BLOCKS = 16,
  ATP_KIND_SUM_BLOCKS_INT16 = 18,
  ATP_KIND_SUM_EXACT = 28
};
#define ATP_KIND_REDUCTION 1 /* masks */
#define ATP_KIND_LANES 6

/* The offset of each field. The first 12 bytes keep their meaning in every version. */
enum atp_offset {
  ATP_AT_VERSION = 0,
  ATP_AT_TYPE = 1,
  ATP_AT_FLAGS = 2,
  ATP_AT_BITMAP_WORDS = 3,
  ATP_AT_JOB = 4,
  ATP_AT_INCARNATION = 8,
  ATP_AT_STREAM = 12,
  ATP_AT_VALUE_COUNT = 14,
  ATP_AT_SEQUENCE = 16,
  ATP_AT_AGGREGATOR_INDEX = 24,
  ATP_AT_OPERATION = 28,
  ATP_AT_MAGNITUDE = 32, /* of a GRADIENT … */
  ATP_AT_NEXT_INDEX =
      32, /* … and three of the same bytes in a PARAMETER, whose fourth is the part */
  ATP_AT_PART = 35,
  ATP_AT_KIND = 36,
  ATP_AT_HOPS = 37,
  ATP_AT_TAG_WORDS = 38, /* on the wire … */
  ATP_AT_ZERO = 39,
  ATP_AT_TENANT = 38, /* … and the same two bytes between a driver and its node */
  ATP_AT_BITMAP = 40
};

/* An index that a PARAMETER assigns has only these bits. */
#define ATP_INDEX_BITS 0xffffff00U

struct atp_header {
  atp_u8 version;
  atp_u8 type;
  atp_u8 flags;
  atp_u8 bitmap_words;
  atp_u32 job;
  atp_u32 incarnation;
  atp_u16 stream;
  atp_u16 value_count;
  atp_u64 sequence;
  atp_u32 aggregator_index;
  atp_u32 operation;
  atp_u32 magnitude;  /* GRADIENT, else 0 */
  atp_u32 next_index; /* PARAMETER, else 0 */
  atp_u8 kind;        /* atp_kind */
  atp_u8 hops;        /* nodes that may still pass it on */
  atp_u16 tenant;     /* whose job it is, as the driver has numbered them; 0: no keys */
};

static inline atp_u16 atp_load16(const atp_u8 *p) { return (atp_u16)((p[0] << 8) | p[1]); }
static inline atp_u32 atp_load32(const atp_u8 *p) {
  return ((atp_u32)p[0] << 24) | ((atp_u32)p[1] << 16) | ((atp_u32)p[2] << 8) | (atp_u32)p[3];
}
static inline atp_u64 atp_load64(const atp_u8 *p) {
  return ((atp_u64)atp_load32(p) << 32) | (atp_u64)atp_load32(p + 4);
}
static inline void atp_store16(atp_u8 *p, atp_u16 v) {
  p[0] = (atp_u8)(v >> 8);
  p[1] = (atp_u8)v;
}
static inline void atp_store32(atp_u8 *p, atp_u32 v) {
  p[0] = (atp_u8)(v >> 24);
  p[1] = (atp_u8)(v >> 16);
  p[2] = (atp_u8)(v >> 8);
  p[3] = (atp_u8)v;
}
static inline void atp_store64(atp_u8 *p, atp_u64 v) {
  atp_store32(p, (atp_u32)(v >> 32));
  atp_store32(p + 4, (atp_u32)v);
}

/* The offset of the values or the control body. */
static inline atp_u32 atp_body_offset(atp_u32 bitmap_words) {
  return ATP_HEADER_BYTES + 8 * bitmap_words;
}

static inline int atp_kind_known(atp_u8 kind) {
  return kind == ATP_KIND_SUM_PLAIN || kind == ATP_KIND_MAX_PLAIN || kind == ATP_KIND_EXPONENTS ||
         kind == ATP_KIND_SUM_FIXED || kind == ATP_KIND_SUM_BLOCKS ||
         kind == ATP_KIND_SUM_BLOCKS_INT16 || kind == ATP_KIND_SUM_EXACT;
}

/* Bytes of one value. */
static inline atp_u32 atp_value_bytes(atp_u8 kind) {
  return (kind & ATP_KIND_LANES) == ATP_KIND_INT16 ? 2 : 4;
}

/* The maximum number of values of a kind in a fragment of K. */
static inline atp_u32 atp_most_values(atp_u8 kind, atp_u32 k) {
  return k * (4 / atp_value_bytes(kind));
}

/* How many aggregators a job may have, as a PARAMETER says it (§3, Header, rule 8): four bits after
 * the leading one, and where that one is. 0: nobody has said how many. */
static inline atp_u32 atp_part_of(atp_u8 part) {
  return part < 16 ? part : (16U + (part & 15U)) << ((part >> 4) - 1);
}
static inline atp_u8 atp_part_code(atp_u32 aggregators) {
  atp_u32 shift; /* of the leading one, from bit 4 */
  if (aggregators < 16) return (atp_u8)aggregators;
  shift = 27U - (atp_u32)__builtin_clz(aggregators);
  if (shift > 14) return 255;
  return (atp_u8)((shift << 4) + (aggregators >> shift));
}

/* The whole UDP payload of a packet that carries values. */
static inline atp_u32 atp_packet_bytes(atp_u32 bitmap_words, atp_u8 kind, atp_u32 value_count) {
  return ATP_HEADER_BYTES + 8 * bitmap_words + atp_value_bytes(kind) * value_count;
}

static inline void atp_read_header(const atp_u8 *p, struct atp_header *h) {
  h->version = p[ATP_AT_VERSION];
  h->type = p[ATP_AT_TYPE];
  h->flags = p[ATP_AT_FLAGS];
  h->bitmap_words = p[ATP_AT_BITMAP_WORDS];
  h->job = atp_load32(p + ATP_AT_JOB);
  h->incarnation = atp_load32(p + ATP_AT_INCARNATION);
  h->stream = atp_load16(p + ATP_AT_STREAM);
  h->value_count = atp_load16(p + ATP_AT_VALUE_COUNT);
  h->sequence = atp_load64(p + ATP_AT_SEQUENCE);
  h->aggregator_index = atp_load32(p + ATP_AT_AGGREGATOR_INDEX);
  h->operation = atp_load32(p + ATP_AT_OPERATION);
  h->magnitude = h->type == ATP_PARAMETER ? 0 : atp_load32(p + ATP_AT_MAGNITUDE);
  h->next_index = h->type == ATP_PARAMETER ? atp_load32(p + ATP_AT_NEXT_INDEX) & ATP_INDEX_BITS : 0;
  h->kind = p[ATP_AT_KIND];
  h->hops = p[ATP_AT_HOPS];
  h->tenant = atp_load16(p + ATP_AT_TENANT);
}

static inline void atp_write_header(atp_u8 *p, const struct atp_header *h) {
  p[ATP_AT_VERSION] = h->version;
  p[ATP_AT_TYPE] = h->type;
  p[ATP_AT_FLAGS] = h->flags;
  p[ATP_AT_BITMAP_WORDS] = h->bitmap_words;
  atp_store32(p + ATP_AT_JOB, h->job);
  atp_store32(p + ATP_AT_INCARNATION, h->incarnation);
  atp_store16(p + ATP_AT_STREAM, h->stream);
  atp_store16(p + ATP_AT_VALUE_COUNT, h->value_count);
  atp_store64(p + ATP_AT_SEQUENCE, h->sequence);
  atp_store32(p + ATP_AT_AGGREGATOR_INDEX, h->aggregator_index);
  atp_store32(p + ATP_AT_OPERATION, h->operation);
  atp_store32(p + ATP_AT_MAGNITUDE,
              h->type == ATP_PARAMETER ? h->next_index & ATP_INDEX_BITS : h->magnitude);
  p[ATP_AT_KIND] = h->kind;
  p[ATP_AT_HOPS] = h->hops;
  atp_store16(p + ATP_AT_TENANT, h->tenant);
}

/* MurmurHash3's 32-bit finalizer: h in docs/inside/protocol, which places fragments (§5) and moves
 * them after a collision (§6). */
static inline atp_u32 atp_fmix32(atp_u32 h) {
  h ^= h >> 16;
  h *= 0x85ebca6bU;
  h ^= h >> 13;
  h *= 0xc2b2ae35U;
  h ^= h >> 16;
  return h;
}

/* The aggregator index of the first fragment in each slot of a stream (§5, *Index*). */
static inline atp_u32 atp_initial_index(atp_u32 job, atp_u32 incarnation, atp_u16 stream,
                                        atp_u32 slot) {
  return atp_fmix32(atp_fmix32(atp_fmix32(job) ^ incarnation) ^ ((atp_u32)stream * 65536U + slot));
}

/* The same for linear placement: the slots of all streams take the n aggregators one after another
 * (§5, *Index*; paper §5.4.2). A switch with n aggregators uses number `position` mod n. */
static inline atp_u32 atp_linear_index(atp_u32 position, atp_u32 n) {
  return (atp_u32)((((atp_u64)(position % n) << 24) + n - 1) / n) << 8;
}

/* The sum of magnitudes bounds every |value| of the sum. It saturates instead of wrapping, so the
 * bound holds in any order of contributions (§4, H9, H10). */
static inline atp_u32 atp_add_magnitude(atp_u32 a, atp_u32 b) {
  const atp_u32 sum = a + b;
  return sum < a ? 0xffffffffU : sum;
}

/* Each switch maps an aggregator index onto its own number of aggregators. */
static inline atp_u32 atp_slot_of_index(atp_u32 index, atp_u32 aggregators) {
  return (atp_u32)(((atp_u64)index * aggregators) >> 32);
}

#endif
