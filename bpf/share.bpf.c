/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Several nodes on one interface. Each has its own steering program (steer.bpf.c) with its own address, table and
 * socket, but an interface takes one program. This program hands each frame to the program of the frame's node.
 *
 *	to a node's address, or one that it has added ──▶ that node's program, on whatever queue it came in
 *	to a group, or a probe ──▶ the program of the node on this queue, or of any
 *
 * A node's program itself notices and counts a frame on a queue that its socket is not bound to.
 */
#include "kernel.h"

#define ETHERNET_BYTES 14
#define NODES 16
/* Of all nodes together. */
#define ADDED_ADDRESSES 256

/* Keys of `places` that are no addresses: addresses have 48 bits. */
#define QUEUE (1ull << 48)
#define ANY (1ull << 49)

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, NODES);
	__type(key, __u32);
	__type(value, __u32);
} nodes SEC(".maps");

/* The node of an address, as it stands in a frame, or of a queue. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * NODES + 1 + ADDED_ADDRESSES);
	__type(key, __u64);
	__type(value, __u32);
} places SEC(".maps");

/* Returns if there is no such node. */
static inline void hand_to(struct xdp_md *ctx, __u64 place)
{
	const __u32 *node = bpf_map_lookup_elem(&places, &place);

	if (node)
		bpf_tail_call(ctx, &nodes, *node);
}

static inline int share_frame(struct xdp_md *ctx)
{
	const __u8 *data = (void *)(long)ctx->data;

	if (data + ETHERNET_BYTES > (const __u8 *)(long)ctx->data_end)
		return XDP_PASS;
	hand_to(ctx, *(const __u32 *)data | (__u64) * (const __u16 *)(data + 4) << 32);
	hand_to(ctx, QUEUE | ctx->rx_queue_index);
	hand_to(ctx, ANY);
	return XDP_PASS;
}

SEC("xdp.frags") int share(struct xdp_md *ctx)
{
	return share_frame(ctx);
}

/* For kernels before 5.18, which do not know frames in several pieces. */
SEC("xdp") int share_linear(struct xdp_md *ctx)
{
	return share_frame(ctx);
}

SEC("license") const char LICENSE[] = "Dual MIT/GPL";
