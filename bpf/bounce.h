/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Rejects a request before the host sees the frame: the twin of am_wire::bounce::RejectTemplate::reject(). FM 1.0 wanted this in the
 * NIC, which was too slow.
 */
#pragma once

#include "decide.h"

/* Note the unknown flow for the host, which notifies the sender. */
static inline void note_unknown_flow(const struct xdp_md *ctx, const volatile struct config *config, struct table *table)
{
	const __u8 *data = (void *)(long)ctx->data;
	struct found found = {};

	if (data + SMALLEST_BYTES > (const __u8 *)(long)ctx->data_end)
		return;
	if (find((const struct frame *)data, config, &found) == FOUND)
		table->unknown_flow = found.flow;
}

/* The framing of a frame, numbered as in struct reject_template. */
static inline __u32 framing_of(const struct frame *frame, const volatile struct config *config)
{
	if (frame->ethertype == config->plain)
		return 3;
	return ((const __u8 *)frame)[6] >> 7 ? 2 : 1;
}

/* Write the reject over the request, all but its sequence number; the rest is zero. */
static inline void write_reject(__u8 *bytes, const struct reject_template *template, __u32 framing)
{
	int i;

#pragma unroll
	for (i = 0; i < START_BYTES; i++) {
		if (framing == 1 && i >= BARE_NUMBER_AT && i < BARE_NUMBER_AT + 2)
			continue;
		if (framing == 2 && i >= SPLIT_NUMBER_AT && i < SPLIT_NUMBER_AT + 3)
			continue;
		if (framing == 3 && i >= PLAIN_NUMBER_AT)
			continue;
		bytes[i] = template->start[i];
	}
	/* The upper bits next to the sequence number have the request's length; the reject is a short frame. */
	if (framing == 1)
		bytes[BARE_NUMBER_AT] &= 0x0f;
#pragma unroll
	for (i = START_BYTES; i < SMALLEST_BYTES; i++)
		bytes[i] = 0;
}

/*
 * Whether a frame of this length has more than one piece. Subtracting data from data_end needs CAP_PERFMON.
 * bpf_check_mtu() does not: it compares the first piece with the MTU. An interface whose header is longer than
 * Ethernet's has a larger limit there; then every frame counts as one in pieces, and goes to the host.
 */
static inline int is_in_pieces(struct xdp_md *ctx, __u32 length)
{
	__u32 mtu = 0, again = 0;

	if (bpf_check_mtu(ctx, 0, &mtu, 0, 0) < 0)
		return 1;
	return bpf_check_mtu(ctx, 0, &again, (int)(mtu + ETHERNET_BYTES + 1 - length), 0) == 0;
}

/*
 * Turn the request into its reject. Returns 0, with the frame unchanged, if that is impossible. The host rejects frames
 * in several pieces: when their other pieces are cut off, the kernel's generic path (6.18) still counts their bytes,
 * and would send that much of its own memory behind the reject.
 */
static inline int bounce(struct xdp_md *ctx, __u32 length, int pieces, const volatile struct config *config,
			 const struct table *table)
{
	__u8 *data = (void *)(long)ctx->data;
	const struct reject_template *template;
	struct found found = {};
	__u32 framing;

	if (data + SMALLEST_BYTES > (__u8 *)(long)ctx->data_end)
		return 0;
	if (pieces && is_in_pieces(ctx, length))
		return 0;
	/* Without this the verifier sees two kinds of index, and asks for CAP_PERFMON. */
	if (find((struct frame *)data, config, &found) != FOUND)
		return 0;
	template = &table->reject_templates[flow_index(found.flow)];
	framing = framing_of((struct frame *)data, config);
	if (framing != template->framing)
		return 0;
	if (length > SMALLEST_BYTES && bpf_xdp_adjust_tail(ctx, SMALLEST_BYTES - (int)length))
		return 0;
	data = (void *)(long)ctx->data;
	if (data + SMALLEST_BYTES > (__u8 *)(long)ctx->data_end)
		return 0;
	write_reject(data, template, framing);
	return 1;
}
