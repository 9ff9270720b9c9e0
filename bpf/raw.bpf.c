/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Bare AF_XDP, for comparison: frames of one EtherType go to the socket of the queue on which they arrived.
 */
#include "kernel.h"

#define ETHERNET_BYTES 14
#define ETHERTYPE_AT 12
#define QUEUES 64

/* In network byte order. */
const volatile __u16 ethertype;

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

static inline int redirect(const struct xdp_md *ctx)
{
	const void *data = (void *)(long)ctx->data;
	const void *end = (void *)(long)ctx->data_end;

	if (data + ETHERNET_BYTES > end || *(const __u16 *)(data + ETHERTYPE_AT) != ethertype)
		return XDP_PASS;
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

SEC("xdp.frags") int raw(struct xdp_md *ctx)
{
	return redirect(ctx);
}

/* For kernels before 5.18, which do not know frames in several pieces. */
SEC("xdp") int raw_linear(struct xdp_md *ctx)
{
	return redirect(ctx);
}

SEC("license") const char LICENSE[] = "Dual MIT/GPL";
