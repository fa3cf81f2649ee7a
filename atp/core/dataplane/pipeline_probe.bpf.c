/* Calls every function of pipeline.h as an XDP program would, so that the BPF compiler generates
 * code for all of it. Some errors appear only then: a memcpy() that it would have to call, or a
 * stack beyond 512 bytes. Only compiled (tools/check_bpf_compiles), never loaded. */
#include "atp/core/dataplane/pipeline.h"

struct atp_aggregator aggregator, home, holder_home;
struct atp_tree_entry tree;
struct atp_share share;
atp_u64 child[ATP_PIPELINE_WORDS];
atp_u64 now, reclaim, sequence_limit;

__attribute__((section("xdp"), used)) int atp_bpf_probe(atp_u8 *packet) {
  struct atp_fragment p;
  struct atp_verdict v;
  atp_u32 w;
  int has;

  atp_read_header(packet, &p.header);
  has = atp_has_fragment(&aggregator, &p.header);
  if (atp_home(&share, p.header.aggregator_index, p.header.tenant) != 0) return 0;
  ATP_EACH_WORD(w) p.bitmap[w] = atp_load64(packet + ATP_AT_BITMAP + 8 * w);
  if (p.header.type == ATP_GRADIENT) {
    v = atp_on_gradient(&aggregator, &home, has, &tree, &share, child, sequence_limit, now, &p);
  } else if (p.header.type == ATP_PARAMETER) {
    if (atp_parameter_reclaims(&aggregator, has, &p.header, now, reclaim)) return 0;
    v = atp_on_parameter(&aggregator, &home, has, &holder_home, &p.header, now, reclaim);
    sequence_limit = atp_sequence_limit(p.header.sequence, 1024);
  } else if (p.header.type == ATP_FLUSH) {
    v = atp_on_flush(&aggregator, &home, has, &p);
  } else {
    v = atp_on_sweep(&aggregator, &home, now, reclaim, &p);
  }
  atp_write_header(packet, &p.header);
  ATP_EACH_WORD(w) atp_store64(packet + ATP_AT_BITMAP + 8 * w, p.bitmap[w]);
  return v.data + v.forward + v.reason;
}
