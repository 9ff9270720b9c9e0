/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Finds the socket of a usual frame: one of a flow, to this node. Nearly all frames are usual, and this executes a third of decide()'s
 * instructions. It answers as decide() would. Whatever is unusual it leaves to decide(), and so it needs no reasons.
 *
 *	destination, group bit, local bit ─▶ EtherType ─▶ version, kind ─▶ length ─▶ the flow's entry: queue, socket
 *
 * tests/root_all/differential.rs compares the answers, and src/instructions.rs counts the instructions.
 */
#pragma once

#include "decide.h"

/*
 * The first 8 bytes of a frame, without the bits behind the group bit and the local bit of the source. User space computes the same of what
 * it wants: table.usual_to. A frame in plain may have any source.
 */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define USUAL_TO(word) ((word) << 14)
#define WITHOUT_SOURCE(word) ((word) << 2)
#else
#define USUAL_TO(word) ((word) & ~0xfcffull)
#define WITHOUT_SOURCE(word) ((word) & ~0x0300ull)
#endif

/* Where a bit of the header is in the first byte of the source. */
#define IN_FIRST_BYTE(shift) ((shift) - GROUP_BIT + 2)

/* Of this byte in bare the version, which is 0, and the upper bits of a message's words. */
#define BARE_FORM_MASK (1 << IN_FIRST_BYTE(BARE_VERSION_SHIFT) | (BARE_FORM_EXTENDED - 1) << IN_FIRST_BYTE(BARE_FORM_SHIFT))
/* Its version and form in a frame of an extended kind. */
#define BARE_EXTENDED (BARE_FORM_EXTENDED << IN_FIRST_BYTE(BARE_FORM_SHIFT))
/* In split this byte is no smaller. */
#define FIRST_SPLIT_FORM (VERSION_SPLIT << IN_FIRST_BYTE(VERSION_SHIFT))

/* A test builds this with wrong values, to see that the comparison finds them. */
#ifndef USUAL_FIELD_BITS
#define USUAL_FIELD_BITS 3
#endif
#ifndef LAST_BARE_FORM
#define LAST_BARE_FORM ((HEAD_WORDS - 1) << IN_FIRST_BYTE(BARE_FORM_SHIFT))
#endif
#ifndef BARE_EXTENDED_MASK
#define BARE_EXTENDED_MASK (1 << IN_FIRST_BYTE(BARE_VERSION_SHIFT) | 0xf << IN_FIRST_BYTE(BARE_FORM_SHIFT))
#endif
#ifndef UNUSUAL_CODE
#define UNUSUAL_CODE CODE_CONTROL
#endif
#ifndef LAST_USUAL_CODE
#define LAST_USUAL_CODE CODE_GET
#endif
#ifndef USUAL_FLOWS
#define USUAL_FLOWS FLOW_COUNT
#endif
#ifndef USUAL_NARROW_OTHERS
#define USUAL_NARROW_OTHERS NARROW_OTHERS
#endif
#ifndef USUAL_WIDE_OTHERS
#define USUAL_WIDE_OTHERS WIDE_OTHERS
#endif

_Static_assert(BARE_FORM_MASK == 0xb0 && HEAD_WORDS == 5, "forms above 5 have two bits in common");

/* Lengths below this one have their code in a table. */
#define LENGTHS 2048

/* The code of a length, and the same with the code of a short frame: wire::length::Lengths::code(). */
#define LONG_CODE(length, units, others)                                                                               \
	((length) % LENGTH_UNIT == 0 ? 1 + (length) / LENGTH_UNIT % (units) : 1 + (units) + (length) % (others))
#define CODE(length, units, others)                                                                                    \
	((length) == SMALLEST_BYTES ? LENGTH_SHORT : LONG_CODE(length, units, others))
#define NARROW(length) CODE(length, NARROW_UNITS, USUAL_NARROW_OTHERS)
#define WIDE(length) CODE(length, WIDE_UNITS, USUAL_WIDE_OTHERS)

/* Bits of a byte of a header in split, in its first eight bytes. In plain they are one byte later. */
#define IN_START(at, bits) from_be64((__u64)(bits) << 8 * (7 - (at)))
#define LENGTH_IN_START(code) (IN_START(SPLIT_FORM_AT, (code) >> 8) | IN_START(SPLIT_LENGTH_AT, (code)&0xff))
#define WIDE_START(length) LENGTH_IN_START(WIDE(length))

_Static_assert(PLAIN_FORM_AT == SPLIT_FORM_AT + 1 && PLAIN_LENGTH_AT == SPLIT_LENGTH_AT + 1, "split and plain are alike");

#define CODES_4(of, at) of(at), of(at + 1), of(at + 2), of(at + 3)
#define CODES_16(of, at) CODES_4(of, at), CODES_4(of, at + 4), CODES_4(of, at + 8), CODES_4(of, at + 12)
#define CODES_64(of, at) CODES_16(of, at), CODES_16(of, at + 16), CODES_16(of, at + 32), CODES_16(of, at + 48)
#define CODES_256(of, at) CODES_64(of, at), CODES_64(of, at + 64), CODES_64(of, at + 128), CODES_64(of, at + 192)
#define CODES_1024(of, at) CODES_256(of, at), CODES_256(of, at + 256), CODES_256(of, at + 512), CODES_256(of, at + 768)

static const __u8 narrow_codes[LENGTHS] = { CODES_1024(NARROW, 0), CODES_1024(NARROW, 1024) };
static const __u64 wide_starts[LENGTHS] = { CODES_1024(WIDE_START, 0), CODES_1024(WIDE_START, 1024) };

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

/* Keeps a number in one register, and what comes before apart from what follows. */
#define SETTLE(number) asm("" : "+r"(number))

/* Whether a frame of an extended kind can be of a flow. Two jumps: the compiler would make numbers of both conditions. */
static inline int is_of_flow(__u32 code)
{
	if (code == UNUSUAL_CODE)
		return 0;
	SETTLE(code);
	return code <= LAST_USUAL_CODE;
}

/* What a table above has for a length. The verifier of 5.10 does not see that the length is bounded. */
#define FOR_LENGTH(table, length, pieces) ((table)[(pieces) ? (length) : MASKED(length, LENGTHS - 1)])

static inline int has_bare_length(struct xdp_md *ctx, int pieces, int is_short, const __u8 *bytes, __u64 source)
{
	__u64 length, code = source >> (BARE_LENGTH_SHIFT + 16) & 0x7f;

	if (is_short)
		return !(PAIR(bytes, BARE_NUMBER_AT - 1) & from_be16(0x7f << (BARE_LENGTH_SHIFT - 8)));
	length = length_of(ctx, pieces);
	return code == (likely(length < LENGTHS) ? FOR_LENGTH(narrow_codes, length, pieces) :
						   LONG_CODE((__u32)length, NARROW_UNITS, USUAL_NARROW_OTHERS));
}

static inline __u32 usual_bare(struct xdp_md *ctx, int pieces, int is_short, const __u8 *bytes, __u64 source,
			       const struct table *table)
{
	if (!likely(has_bare_length(ctx, pieces, is_short, bytes, source)))
		return NOT_USUAL;
	return on_queue(ctx, table, ENTRY_AT(source, BARE_FLOW_SHIFT));
}

static inline __u64 wide_start(struct xdp_md *ctx, int pieces)
{
	__u64 length = length_of(ctx, pieces), code;

	if (likely(length < LENGTHS))
		return FOR_LENGTH(wide_starts, length, pieces);
	code = LONG_CODE((__u32)length, WIDE_UNITS, USUAL_WIDE_OTHERS);
	return LENGTH_IN_START(code);
}

/*
 * Whether a header in split is that of a usual frame, or one in plain without its version. One comparison covers kind and length, and these
 * `zeros`.
 */
static inline int is_usual_start(struct xdp_md *ctx, int pieces, int is_short, __u64 start, int code_at, __u64 zeros)
{
	__u64 wanted = is_short ? LENGTH_IN_START(LENGTH_SHORT) : wide_start(ctx, pieces);
	__u64 mask = LENGTH_IN_START(0x7ff) | zeros;

	if (likely((start & (mask | IN_START(SPLIT_FORM_AT, FIELD_EXTENDED << FORM_KIND_SHIFT))) == wanted))
		return 1;
	mask |= IN_START(SPLIT_FORM_AT, USUAL_FIELD_BITS << FORM_KIND_SHIFT);
	wanted |= IN_START(SPLIT_FORM_AT, FIELD_EXTENDED << FORM_KIND_SHIFT);
	return (start & mask) == wanted && is_of_flow(from_be64(start) >> 8 * (7 - code_at) & 0xff);
}

static inline __u32 usual_split(struct xdp_md *ctx, int pieces, int is_short, const __u8 *header, __u64 source,
				const struct table *table)
{
	__u64 start = *(const __u64 *)header;

	if (!likely(is_usual_start(ctx, pieces, is_short, start, SPLIT_CODE_AT, 0)))
		return NOT_USUAL;
	return on_queue(ctx, table, ENTRY_AT(source, SPLIT_FLOW_SHIFT));
}

/* A flow has two bits more in plain, which are 0. */
static inline __u32 usual_plain(struct xdp_md *ctx, int pieces, int is_short, const __u8 *header, const struct table *table)
{
	__u64 start = *(const __u64 *)(header + 1);

	if (BYTE(header, PLAIN_VERSION_AT) != VERSION_PLAIN)
		return NOT_USUAL;
	if (!likely(is_usual_start(ctx, pieces, is_short, start, PLAIN_CODE_AT - 1,
				   IN_START(PLAIN_FLOW_AT - 1, 0xff & ~((USUAL_FLOWS - 1) >> 8)))))
		return NOT_USUAL;
	return on_queue(ctx, table, MASKED(from_be64(start) >> (8 * (7 - PLAIN_FLOW_AT) - 1), (FLOW_COUNT - 1) << 1));
}

static inline __u32 usual_hidden(struct xdp_md *ctx, int pieces, int is_short, const __u8 *bytes, const struct table *table)
{
	__u64 source = from_be64(*(const __u64 *)(bytes + 6));

	if (likely((BYTE(bytes, 6) & BARE_FORM_MASK) <= LAST_BARE_FORM))
		return usual_bare(ctx, pieces, is_short, bytes, source, table);
	if (likely(BYTE(bytes, 6) >= FIRST_SPLIT_FORM))
		return usual_split(ctx, pieces, is_short, bytes + ETHERNET_BYTES, source, table);
	if ((BYTE(bytes, 6) & BARE_EXTENDED_MASK) != BARE_EXTENDED || !is_of_flow(source >> (BARE_CODE_SHIFT + 16) & 0xff))
		return NOT_USUAL;
	return usual_bare(ctx, pieces, is_short, bytes, source, table);
}

/* usual() for a frame of 60 bytes, and for a longer one. */
static inline __u32 usual_of(struct xdp_md *ctx, int pieces, int is_short, const __u8 *bytes, const struct table *table)
{
	const struct frame *frame = (const void *)bytes;
	__u64 to = USUAL_TO(*(const __u64 *)bytes);

	if (likely(to == table->usual_to) && likely(frame->ethertype == table->usual_type))
		return usual_hidden(ctx, pieces, is_short, bytes, table);
	if (!WITHOUT_SOURCE(to ^ table->usual_to) && frame->ethertype == table->plain_type)
		return usual_plain(ctx, pieces, is_short, bytes + ETHERNET_BYTES, table);
	return NOT_USUAL;
}

/*
 * The socket of a usual frame, plus one; 0 if its flow has none. NOT_USUAL or more for any other frame.
 *
 * A first piece of 60 bytes passes for a whole frame, if its header says so. No driver makes such pieces; the host would notice.
 */
static inline __u32 usual(struct xdp_md *ctx, int pieces, const struct table *table)
{
	const __u8 *bytes = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (!likely(bytes + SMALLEST_BYTES + 1 > end))
		return usual_of(ctx, pieces, 0, bytes, table);
	if (likely(bytes + SMALLEST_BYTES <= end))
		return usual_of(ctx, pieces, 1, bytes, table);
	return NOT_USUAL;
}
