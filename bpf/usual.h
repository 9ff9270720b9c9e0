/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Finds the socket of a usual frame: a request or a reply in bare or split framing, to this node. Nearly all frames are usual, and this
 * executes a third of decide()'s instructions. It answers as decide() would. Whatever is unusual it leaves to decide(), and so it needs no
 * reasons.
 *
 *	destination, group bit, local bit ─▶ EtherType ─▶ version, kind ─▶ length ─▶ the flow's entry: queue, socket
 *
 * tests/root_all/differential.rs compares the answers, and src/instructions.rs counts the instructions.
 */
#pragma once

#include "decide.h"

/*
 * The first 8 bytes of a frame, without the bits behind the group bit and the local bit of the source. User space computes the same of what
 * it wants: table.usual_to.
 */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define USUAL_TO(word) ((word) << 14)
#else
#define USUAL_TO(word) ((word) & ~0xfcffull)
#endif

/* Where a bit of the header is in the first byte of the source. */
#define IN_FIRST_BYTE(shift) ((shift) - GROUP_BIT + 2)

/* Of this byte in bare the version, which is 0, and the upper bits of a message's words. */
#define BARE_FORM_MASK (1 << IN_FIRST_BYTE(BARE_VERSION_SHIFT) | (BARE_FORM_EXTENDED - 1) << IN_FIRST_BYTE(BARE_FORM_SHIFT))
/* In split this byte is no smaller. */
#define FIRST_SPLIT_FORM (VERSION_SPLIT << IN_FIRST_BYTE(VERSION_SHIFT))

/* A test builds this with wrong values, to see that the comparison finds them. */
#ifndef LAST_BARE_FORM
#define LAST_BARE_FORM ((HEAD_WORDS - 1) << IN_FIRST_BYTE(BARE_FORM_SHIFT))
#endif
#ifndef FIELDS_OF_USUAL
#define FIELDS_OF_USUAL FIELD_EXTENDED
#endif
#ifndef USUAL_NARROW_OTHERS
#define USUAL_NARROW_OTHERS NARROW_OTHERS
#endif
#ifndef USUAL_WIDE_OTHERS
#define USUAL_WIDE_OTHERS WIDE_OTHERS
#endif

_Static_assert(BARE_FORM_MASK == 0xb0 && HEAD_WORDS == 5, "forms above 5 have two bits in common");

/* Longer frames are not usual. */
#define LENGTHS 2048

/* The length code of each length: wire::length::Lengths::code(), without its divisions. */
#define CODE(length, units, others)                                                                                    \
	((length) == SMALLEST_BYTES  ? LENGTH_SHORT :                                                                  \
	 (length) % LENGTH_UNIT == 0 ? 1 + (length) / LENGTH_UNIT % (units) :                                          \
				       1 + (units) + (length) % (others))
#define NARROW(length) CODE(length, NARROW_UNITS, USUAL_NARROW_OTHERS)
#define WIDE(length) CODE(length, WIDE_UNITS, USUAL_WIDE_OTHERS)
#define CODES_4(of, at) of(at), of(at + 1), of(at + 2), of(at + 3)
#define CODES_16(of, at) CODES_4(of, at), CODES_4(of, at + 4), CODES_4(of, at + 8), CODES_4(of, at + 12)
#define CODES_64(of, at) CODES_16(of, at), CODES_16(of, at + 16), CODES_16(of, at + 32), CODES_16(of, at + 48)
#define CODES_256(of, at) CODES_64(of, at), CODES_64(of, at + 64), CODES_64(of, at + 128), CODES_64(of, at + 192)
#define CODES_1024(of, at) CODES_256(of, at), CODES_256(of, at + 256), CODES_256(of, at + 512), CODES_256(of, at + 768)

static const __u8 narrow_codes[LENGTHS] = { CODES_1024(NARROW, 0), CODES_1024(NARROW, 1024) };
static const __u16 wide_codes[LENGTHS] = { CODES_1024(WIDE, 0), CODES_1024(WIDE, 1024) };

/* Volatile: the compiler would make one load of several, and then take its result apart. */
#define BYTE(bytes, at) (*((const volatile __u8 *)(bytes) + (at)))
#define PAIR(bytes, at) (*(const volatile __u16 *)((bytes) + (at)))

/* The mask in assembly keeps the bound of an index for the verifier: see flow_index(). */
#define MASKED(number, mask)                                                                                           \
	({                                                                                                             \
		__u64 masked = (number);                                                                               \
		asm volatile("%0 &= %1" : "+r"(masked) : "i"(mask));                                                   \
		masked;                                                                                                \
	})

/*
 * Where in table.flows a flow's entry is, in bytes. `source` has the EtherType below. The bits of a flow are on both sides of the group bit
 * and the local bit. A sum, because the verifiers of 5.10 and 6.1 forget all bounds at an `or` of two variables.
 */
#define BITS_BELOW(shift) ((1 << (GROUP_BIT - (shift))) - 1)
#define ENTRY_AT(source, shift)                                                                                        \
	(MASKED((source) >> ((shift) + 16 - 1), (FLOW_MASK & BITS_BELOW(shift)) << 1) +                                \
	 MASKED((source) >> ((shift) + 18 - 1), (FLOW_MASK & ~BITS_BELOW(shift)) << 1))

/* Larger than a byte. */
#define NOT_USUAL 0x100

/* The socket in an entry, plus one, if it is bound to the frame's queue. Otherwise NOT_USUAL or more. */
static inline __u32 on_queue(const struct xdp_md *ctx, const struct table *table, __u64 at)
{
	return *(const __u16 *)((const __u8 *)table->flows + at) ^ ctx->rx_queue_index << 8;
}

/* The code of a length: `codes` is a table above. The verifier of 5.10 does not see that the length is bounded. */
#define HAS_CODE(codes, length, pieces, code)                                                                          \
	((length) < LENGTHS && (codes)[(pieces) ? (length) : MASKED(length, LENGTHS - 1)] == (code))

static inline int has_bare_length(struct xdp_md *ctx, int pieces, int is_short, const __u8 *bytes, __u64 source)
{
	__u64 length;

	if (is_short)
		return !(PAIR(bytes, BARE_NUMBER_AT - 1) & from_be16(0x7f << (BARE_LENGTH_SHIFT - 8)));
	length = length_of(ctx, pieces);
	return HAS_CODE(narrow_codes, length, pieces, (source >> (BARE_LENGTH_SHIFT + 16) & 0x7f));
}

static inline int has_split_length(struct xdp_md *ctx, int pieces, int is_short, const __u8 *payload)
{
	__u32 code = length_code(BYTE(payload, SPLIT_FORM_AT), BYTE(payload, SPLIT_LENGTH_AT));
	__u64 length;

	if (is_short)
		return code == LENGTH_SHORT;
	length = length_of(ctx, pieces);
	return HAS_CODE(wide_codes, length, pieces, code);
}

/* usual() for a frame of 60 bytes, and for a longer one. */
static inline __u32 usual_of(struct xdp_md *ctx, int pieces, int is_short, const __u8 *bytes, const struct table *table)
{
	const struct frame *frame = (const void *)bytes;
	__u64 source;

	if (!likely(USUAL_TO(*(const __u64 *)bytes) == table->usual_to && frame->ethertype == table->usual_type))
		return NOT_USUAL;
	source = from_be64(*(const __u64 *)(bytes + 6));
	if (likely((BYTE(bytes, 6) & BARE_FORM_MASK) <= LAST_BARE_FORM)) {
		if (!likely(has_bare_length(ctx, pieces, is_short, bytes, source)))
			return NOT_USUAL;
		return on_queue(ctx, table, ENTRY_AT(source, BARE_FLOW_SHIFT));
	}
	if (BYTE(bytes, 6) < FIRST_SPLIT_FORM || BYTE(frame->payload, SPLIT_FORM_AT) >> FORM_KIND_SHIFT >= FIELDS_OF_USUAL)
		return NOT_USUAL;
	if (!likely(has_split_length(ctx, pieces, is_short, frame->payload)))
		return NOT_USUAL;
	return on_queue(ctx, table, ENTRY_AT(source, SPLIT_FLOW_SHIFT));
}

/*
 * The socket of a usual frame, plus one; 0 if its flow has none. NOT_USUAL or more for any other frame.
 *
 * A first piece of 60 bytes passes for a whole frame, if its header says so. No driver makes such pieces; the host would notice.
 */
static inline __u32 usual(struct xdp_md *ctx, int pieces, const struct table *table)
{
	const __u8 *bytes = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (bytes + SMALLEST_BYTES + 1 <= end)
		return usual_of(ctx, pieces, 0, bytes, table);
	if (likely(bytes + SMALLEST_BYTES <= end))
		return usual_of(ctx, pieces, 1, bytes, table);
	return NOT_USUAL;
}
