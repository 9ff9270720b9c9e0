/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Steers active messages into AF_XDP sockets.
 *
 *	frame ──▶ usual() ─────▶ into the ring of its socket
 *	            │ another, or no socket
 *	            ▼
 *	          decide() ──┬─▶ Pass    to the kernel's stack, untouched
 *	                     ├─▶ Drop    counted by reason
 *	                     ├─▶ Socket  into the ring of that socket
 *	                     ├─▶ Control into the node's socket, if it passes the gate
 *	                     ├─▶ Bounce  back to its sender, as a reject
 *	                     └─▶ Sequence stamped, and on to its group
 */
#include "bounce.h"
#include "copies.h"
#include "gate.h"
#include "sequence.h"
#include "usual.h"

/* The number of each counter. */
enum {
	COUNT_PASS = 0, /* plus wire::steer::PassReason */
	COUNT_DROP = 8, /* plus wire::Reason */
	COUNT_REDIRECTED = 40,
	COUNT_WRONG_QUEUE = 41, /* the socket is bound to another queue: the kernel would drop the frame uncounted */
	COUNT_NO_SOCKET = 42,	/* the flow's socket is closed, or not there yet */
	COUNT_BOUNCED = 43,	/* rejects sent, because the node has no room for requests */
	COUNT_LOST = 44,	/* lost on purpose */
	COUNT_GATE = 45,	/* plus the gate's reason to refuse a control frame */
	COUNT_SEQUENCE = 48,	/* plus the outcome of sequence() */
	COUNTERS = 64,
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
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

/* By the index of a socket plus one, as in the flows' entries. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, SOCKETS);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* One lookup for each count: a variable index into one value needs CAP_PERFMON. */
static inline void count(__u32 number)
{
	__u64 *counter = bpf_map_lookup_elem(&counts, &number);

	if (counter)
		++*counter;
}

/*
 * The key is set in assembly: the compiler would hold a register for it from one lookup to the next. The result moves at once to a register
 * that calls preserve.
 */
static inline struct table *the_table(void)
{
	struct table *table;
	__u32 only;

	asm volatile("%0 = 0" : "=r"(only));
	table = bpf_map_lookup_elem(&tables, &only);
	asm volatile("" : : : "r0");
	return table;
}

static inline int redirect(const struct xdp_md *ctx, __u32 decision)
{
	long action;

	if (QUEUE(decision) != ctx->rx_queue_index) {
		count(COUNT_WRONG_QUEUE);
		return XDP_DROP;
	}
	action = bpf_redirect_map(&sockets, DETAIL(decision) + 1, XDP_DROP);
	if (action == XDP_DROP)
		count(COUNT_NO_SOCKET);
	else if (config.counts_redirected)
		count(COUNT_REDIRECTED);
	return action;
}

/* Losses for tests. The verifier removes this code if config.lost is 0. */
static inline int is_lost(void)
{
	if (likely(!config.lost) || bpf_get_prandom_u32() >= config.lost)
		return 0;
	count(COUNT_LOST);
	return 1;
}

static inline int steer_control(struct xdp_md *ctx, __u32 decision, int pieces, const struct table *table)
{
	__u32 refused = gate(ctx, length_of(ctx, pieces), &config, table, 0);

	if (refused) {
		count(COUNT_GATE + refused);
		return XDP_DROP;
	}
	return is_lost() ? XDP_DROP : redirect(ctx, decision);
}

static inline int send_stamped(const struct stamps *opened)
{
	return opened && LOAD(opened->to) == TO_COPIES ? bpf_redirect_map(&copies, 0, BPF_F_BROADCAST) : XDP_TX;
}

/* Stamps if it can. Otherwise the host does, and so do the counters of what it refuses. */
static inline int steer_sequence(struct xdp_md *ctx, __u32 decision, int pieces)
{
	__u32 place = PLACE(decision), outcome = REFUSED(REFUSAL_NO_GROUP);
	struct stamps *opened = 0;

	if (is_lost())
		return XDP_DROP;
	if (pieces) {
		opened = bpf_map_lookup_elem(&stamps, &place);
		if (opened)
			outcome = sequence(ctx, &config, opened, bpf_ktime_get_ns());
	}
	if (outcome == REFUSED(REFUSAL_NO_GROUP))
		return redirect(ctx, decision ^ SEQUENCE(place) ^ SOCKET(0));
	count(COUNT_SEQUENCE + outcome);
	return outcome <= STAMPED_AGAIN ? send_stamped(opened) : XDP_DROP;
}

/* Any frame, if it is not usual, or if its socket did not take it. */
static inline int steer_rest(struct xdp_md *ctx, int pieces)
{
	struct table *table = the_table();
	__u32 decision;

	if (!table)
		return XDP_PASS;
	decision = decide(ctx, pieces, &config, table);
	if (IS_SOCKET(decision))
		return is_lost() ? XDP_DROP : redirect(ctx, decision);
	if (IS_CONTROL(decision))
		return steer_control(ctx, decision, pieces, table);
	if (IS_SEQUENCE(decision))
		return steer_sequence(ctx, decision, pieces);
	if (IS_BOUNCE(decision)) {
		if (is_lost())
			return XDP_DROP;
		if (!bounce(ctx, length_of(ctx, pieces), pieces, &config, table))
			return redirect(ctx, decision);
		count(COUNT_BOUNCED);
		return XDP_TX;
	}
	if (decision == DROP(REASON_NO_FLOW))
		note_unknown_flow(ctx, &config, table);
	count((IS_PASS(decision) ? COUNT_PASS : COUNT_DROP) + DETAIL(decision));
	return IS_PASS(decision) ? XDP_PASS : XDP_DROP;
}

/* A flow without a socket has the key 0, which has none either. */
static inline int steer_frame(struct xdp_md *ctx, int pieces)
{
	const struct table *table = the_table();
	__u32 socket = likely(table) ? usual(ctx, pieces, table) : NOT_USUAL;
	long action;

	if (likely(socket < NOT_USUAL)) {
		action = bpf_redirect_map(&sockets, socket, XDP_DROP);
		if (likely(action != XDP_DROP))
			return action;
	}
	return steer_rest(ctx, pieces);
}

/*
 * Accepts frames in several pieces. An interface with a large MTU refuses programs that do not. Steering reads only the
 * first piece.
 */
SEC("xdp.frags") int steer(struct xdp_md *ctx)
{
	return steer_frame(ctx, 1);
}

/* For kernels before 5.18, which do not know frames in several pieces. */
SEC("xdp") int steer_linear(struct xdp_md *ctx)
{
	return steer_frame(ctx, 0);
}

/*
 * Never attached: for tests. Returns the decision, to be compared with wire::steer, and turns a request that bounces
 * into its reject, and one to be stamped into what it becomes. The upper four of the 16 bits have the gate's reason to
 * refuse a control frame, or the outcome of sequence(). A test sets the clock.
 */
static inline int probe(struct xdp_md *ctx, int pieces)
{
	__u32 place, outcome = REFUSED(REFUSAL_NO_GROUP);
	struct stamps *opened;
	const struct table *table = the_table();
	__u32 decision, socket;

	if (!table)
		return ~0u;
	socket = usual(ctx, pieces, table);
	if (socket && socket < NOT_USUAL)
		return SOCKET(socket - 1);
	decision = decide(ctx, pieces, &config, table);
	if (IS_BOUNCE(decision))
		bounce(ctx, length_of(ctx, pieces), pieces, &config, table);
	if (IS_CONTROL(decision))
		decision |= gate(ctx, length_of(ctx, pieces), &config, table, 1) << 12;
	if (!IS_SEQUENCE(decision))
		return decision & 0xffff;
	place = PLACE(decision);
	if (pieces) {
		opened = bpf_map_lookup_elem(&stamps, &place);
		if (opened)
			outcome = sequence(ctx, &config, opened, gate_clock(1));
	}
	return 0x600 | place | outcome << 12;
}

SEC("xdp.frags") int steer_probe(struct xdp_md *ctx)
{
	return probe(ctx, 1);
}

SEC("xdp") int steer_probe_linear(struct xdp_md *ctx)
{
	return probe(ctx, 0);
}

/* Runs on each copy of a stamped frame before it leaves. */
SEC("xdp.frags/devmap") int copy(struct xdp_md *ctx)
{
	return copy_frame(ctx, &config);
}

/* Never attached: for tests, because the kernel does not let them run the one above. */
SEC("xdp.frags") int copy_probe(struct xdp_md *ctx)
{
	return copy_frame(ctx, &config);
}

SEC("license") const char LICENSE[] = "Dual MIT/GPL";
