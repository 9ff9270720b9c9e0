/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Our LANai control program: steers active messages into AF_XDP sockets.
 *
 *	frame ──▶ decide() ──┬─▶ Pass    to the kernel's stack, untouched
 *	                     ├─▶ Drop    counted by reason
 *	                     └─▶ Socket  into the ring of that socket
 */
#include "decide.h"

struct counters {
	__u64 pass[8];	/* by wire::steer::Pass */
	__u64 drop[32]; /* by wire::Reason */
	__u64 redirected;
	__u64 wrong_queue; /* the socket is bound to another queue: the kernel would drop it unseen */
	__u64 no_socket;   /* a flow whose socket has been closed, or was not there yet */
};

const volatile struct config config;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct table);
} tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, SOCKETS);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* Both maps have one element. */
static inline void *only_element_of(void *map)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(map, &key);
}

static inline int redirect(const struct xdp_md *ctx, __u8 socket, const struct table *table)
{
	struct counters *counters_here = only_element_of(&counts);
	long action;

	if (!counters_here)
		return XDP_DROP;
	if (table->queues[socket] != ctx->rx_queue_index) {
		counters_here->wrong_queue++;
		return XDP_DROP;
	}
	action = bpf_redirect_map(&sockets, socket, XDP_DROP);
	if (likely(action != XDP_DROP))
		counters_here->redirected++;
	else
		counters_here->no_socket++;
	return action;
}

/* Passed and dropped frames, off the path of messages. */
static inline int refuse(__u32 decision)
{
	struct counters *counters_here = only_element_of(&counts);

	if (IS_PASS(decision)) {
		if (counters_here)
			counters_here->pass[DETAIL(decision) & 7]++;
		return XDP_PASS;
	}
	if (counters_here)
		counters_here->drop[DETAIL(decision) & 31]++;
	return XDP_DROP;
}

static inline int steer_frame(const struct xdp_md *ctx)
{
	const struct table *table = only_element_of(&tables);
	__u32 decision;

	if (!table)
		return XDP_PASS;
	decision = decide((void *)(long)ctx->data, (void *)(long)ctx->data_end, &config, table);
	if (likely(IS_SOCKET(decision)))
		return redirect(ctx, DETAIL(decision), table);
	return refuse(decision);
}

/*
 * Takes frames in several pieces, without which an interface with a large MTU
 * refuses the program. What steering reads is in the first piece.
 */
SEC("xdp.frags") int steer(struct xdp_md *ctx)
{
	return steer_frame(ctx);
}

/* For kernels before 5.18, which know no frames in pieces. */
SEC("xdp") int steer_linear(struct xdp_md *ctx)
{
	return steer_frame(ctx);
}

/* Never attached: answers with the bare decision, for the comparison with wire::steer. */
SEC("xdp.frags") int steer_probe(struct xdp_md *ctx)
{
	const struct table *table = only_element_of(&tables);

	return table ? decide((void *)(long)ctx->data, (void *)(long)ctx->data_end, &config, table) : ~0u;
}

SEC("license") const char LICENSE[] = "Dual MIT/GPL";
