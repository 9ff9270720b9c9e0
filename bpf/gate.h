/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Admits control frames to the node: the twin of wire::gate, function by function. tests/root_all/gate.rs gives both
 * the same frames.
 */
#pragma once

#include "bounce.h"

/* Why a frame is refused: wire::gate::GateError, plus one. */
#define SENSELESS 1
#define OVER_LIMIT 2

/* A test builds this with wrong values, to see that the comparison finds them. */
#ifndef EACH_BURST
#define EACH_BURST GATE_EACH_BURST
#endif
#ifndef KNOWN_BURST
#define KNOWN_BURST GATE_KNOWN_BURST
#endif
#ifndef WORDS_MASK
#define WORDS_MASK 7
#endif

/* wire::control::Control::AUTH_CODE_BYTES */
#define AUTH_CODE_BYTES 16

#define GATE_ALL GATE_SOURCES
#define GATE_CLOCK (GATE_SOURCES + 1)

/*
 * Per bucket of sources, then for all sources: the time at which the bucket is empty, in nanoseconds. Last: the clock
 * of a test.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GATE_SOURCES + 2);
	__type(key, __u32);
	__type(value, __u64);
} buckets SEC(".maps");

/* A lookup for each element: a variable index into one value (pointer arithmetic) needs CAP_PERFMON. */
static inline __u64 *bucket(__u32 number)
{
	return bpf_map_lookup_elem(&buckets, &number);
}

static inline __u64 gate_clock(int is_test)
{
	const __u64 *clock;

	if (!is_test)
		return bpf_ktime_get_ns();
	clock = bucket(GATE_CLOCK);
	return clock ? *clock : 0;
}

static inline int has_room(__u64 empty, __u64 now, __u64 interval, __u64 burst)
{
	return empty <= now || empty - now < interval * burst;
}

/* Two CPUs that write at once may lose one count. A limit need not be exact. */
static inline void fill(__u64 *empty, __u64 now, __u64 interval)
{
	*empty = (*empty > now ? *empty : now) + interval;
}

/* The mask in assembly keeps the bound of the index for the verifier: see flow_index(). */
static inline __u64 bucket_of(__u64 from)
{
	__u64 index = from * 0x9e3779b97f4a7c15ull / (~0ull / GATE_SOURCES + 1);

	asm volatile("%0 &= %1" : "+r"(index) : "i"(GATE_SOURCES - 1));
	return index;
}

static inline __u32 is_within(__u64 from, __u64 now, const struct table *table)
{
	__u64 number = bucket_of(from);
	__u64 all_burst = table->known[number] == from ? KNOWN_BURST : GATE_ALL_BURST;
	__u64 *each = bucket(number);
	__u64 *all = bucket(GATE_ALL);

	if (!each || !all)
		return 0;
	if (!has_room(*each, now, GATE_EACH_NS, EACH_BURST) || !has_room(*all, now, GATE_ALL_NS, all_burst))
		return 0;
	fill(each, now, GATE_EACH_NS);
	fill(all, now, GATE_ALL_NS);
	return 1;
}

/*
 * Whether `size` is right for a control frame whose body starts with `code` (docs/wire.md), without an authentication code. Only code 6,
 * a long probe, has no largest size.
 */
static inline int has_content_size(__u32 code, __u32 size)
{
	switch (code) {
	case 1: /* beacon */
		return size >= 31 && size <= 61;
	case 2: /* connect */
		return size >= 58 && size <= 118;
	case 3: /* accept */
		return size == 29;
	case 4: /* refuse */
	case 7: /* probe seen */
		return size == 6;
	case 5: /* close */
		return size == 34;
	case 6: /* probe */
		return size >= 14;
	case 8: /* keepalive */
		return size == 9;
	case 9: /* closed */
		return size == 10 || size == 35;
	case 10: /* leave */
		return size == 17;
	}
	return 0;
}

static inline int has_size(__u32 code, __u32 size)
{
	return has_content_size(code, size) || (size > AUTH_CODE_BYTES && has_content_size(code, size - AUTH_CODE_BYTES));
}

/*
 * Volatile loads of the bytes of all framings. The compiler would merge other loads into one with a variable offset,
 * which older verifiers reject.
 */
static inline __u32 byte_at(const struct frame *frame, __u32 at)
{
	return *((const volatile __u8 *)frame + at);
}

#define BODY_AT(cost) (ETHERNET_BYTES + (cost))

static inline int is_sensible(const struct frame *frame, __u32 length, const volatile struct config *config)
{
	__u32 in_bare = byte_at(frame, BODY_AT(BARE_COST)), in_split = byte_at(frame, BODY_AT(SPLIT_COST));
	__u32 in_plain = byte_at(frame, BODY_AT(PLAIN_COST)), last = byte_at(frame, SMALLEST_BYTES - 1);
	__u32 split_form = byte_at(frame, ETHERNET_BYTES + SPLIT_FORM_AT);
	__u32 plain_form = byte_at(frame, ETHERNET_BYTES + PLAIN_FORM_AT);
	__u32 framing = framing_of(frame, config);
	__u32 code = framing == 1 ? in_bare : framing == 2 ? in_split : in_plain;
	__u32 form = framing == 1 ? 0 : framing == 2 ? split_form : plain_form;
	__u32 size = length - BODY_AT(framing == 1 ? BARE_COST : framing == 2 ? SPLIT_COST : PLAIN_COST);
	struct found found = {};

	if (find(frame, config, &found) != FOUND || form >> FORM_WORDS_SHIFT & WORDS_MASK)
		return 0;
	return has_size(code, found.length == LENGTH_SHORT ? last >> 2 : size);
}

/*
 * Returns 0 if the frame passes, or the reason. The clock is read last: verifiers forget a pointer into the frame at a
 * call.
 */
static inline __u32 gate(struct xdp_md *ctx, __u32 length, const volatile struct config *config,
			 const struct table *table, int is_test)
{
	const struct frame *frame = (void *)(long)ctx->data;
	__u64 from;

	if ((void *)frame + SMALLEST_BYTES > (void *)(long)ctx->data_end || !is_sensible(frame, length, config))
		return SENSELESS;
	from = (__u64)from_be16(frame->from_high) << 32 | from_be32(frame->from_low);
	return is_within(from, gate_clock(is_test), table) ? 0 : OVER_LIMIT;
}
