/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The numbers of datapath/wire that steering needs. A test (tests/constants.rs) compares each with the Rust code.
 */
#pragma once

#define ETHERNET_BYTES 14
#define SMALLEST_BYTES 60

/* The free bits of a source address: all but the group bit and the local bit. */
#define GROUP_BIT 40
#define LOCAL_BIT 41
#define VERSION_SHIFT 44

/* bare has one bit of version. Its form is the number of words of a request; with this bit of a reply; or extended. */
#define BARE_VERSION_SHIFT 45
#define BARE_FORM_SHIFT 41
#define BARE_FORM_REPLY 8
#define BARE_FORM_EXTENDED 7
#define BARE_FLOW_SHIFT 27
#define BARE_CODE_SHIFT 19
#define BARE_LENGTH_SHIFT 12

#define VERSION_SPLIT 3
#define SPLIT_FLOW_SHIFT 30
#define SPLIT_FORM_AT 0
#define SPLIT_CODE_AT 1
#define SPLIT_LENGTH_AT 4

#define VERSION_PLAIN 2
#define PLAIN_VERSION_AT 0
#define PLAIN_FORM_AT 1
#define PLAIN_FLOW_AT 2
#define PLAIN_CODE_AT 4
#define PLAIN_LENGTH_AT 5

/* Bytes of the header in the payload. */
#define BARE_COST 0
#define SPLIT_COST 8
#define PLAIN_COST 12

/* What leads a frame, and where in the frame each framing has the number. */
#define START_BYTES 26
#define BARE_NUMBER_AT 10
#define SPLIT_NUMBER_AT 19
#define PLAIN_NUMBER_AT 22

/* The kind: two bits of the form byte, and for extended kinds the handler field. */
#define FORM_KIND_SHIFT 6
#define FORM_WORDS_SHIFT 3
#define HEAD_WORDS 5
#define FIELD_REQUEST 0
#define FIELD_REPLY 1
#define FIELD_EXTENDED 2
#define CODE_ACK 0
#define CODE_CONTROL 1
#define CODE_REJECT 2
#define CODE_BUNDLE_REQUESTS 3
#define CODE_BUNDLE_REPLIES 4
#define CODE_PUT 5
#define CODE_GET 6
#define CODE_GROUP 7

/* The code of a frame's length: lengths that are multiples of the unit have codes of their own. */
#define LENGTH_SHORT 0
#define LENGTH_UNIT 16
#define NARROW_UNITS 95
#define NARROW_OTHERS 31
#define WIDE_UNITS 1023
#define WIDE_OTHERS 1023

#define FLOW_COUNT 16384
#define FLOW_NODE 0

/* wire::Reason, those that steering can see */
#define REASON_SHORT 0
#define REASON_SOURCE 1
#define REASON_VERSION 2
#define REASON_KIND 3
#define REASON_NO_FLOW 4
#define REASON_NODE_FLOW 5
#define REASON_LENGTH 6
#define REASON_WORDS 7
#define REASON_BODY 8
#define REASON_NO_GROUP 10

/* wire::group: where the header is in a frame, and the parts of it that steering needs */
#define GROUP_HEADER_AT 26
#define GROUP_HEADER_BYTES 48
#define GROUP_TAGGED_BYTES 40
#define GROUP_WHAT_AT 38
#define GROUP_TO_STAMP 0
#define GROUP_STAMPED 1
#define GROUP_DATAGRAM 2

/* wire::group::JoinedGroups::MAX */
#define GROUPS 8

/* wire::stamp */
#define SENDERS 64
#define REMEMBERED 128
#define REMEMBERED_NUMBER_BITS 37

/* wire::stamp::Destination */
#define TO_GROUP 0
#define TO_COPIES 1
#define TO_SENDER 2

/* wire::stamp::Refusal */
#define REFUSAL_NO_GROUP 0
#define REFUSAL_EPOCH 1
#define REFUSAL_LEASE 2
#define REFUSAL_SENDER 3
#define REFUSAL_ADDRESS 4
#define REFUSAL_TAG 5
#define REFUSAL_GAP 6
#define REFUSAL_FORGOTTEN 7
#define REFUSAL_CREDIT 8

/* wire::AddressSet::MAX */
#define ADDED_ADDRESSES 256

/* wire::gate */
#define GATE_SOURCES 1024
#define GATE_EACH_NS 50000
#define GATE_EACH_BURST 32768
#define GATE_ALL_NS 25000
#define GATE_ALL_BURST 49152
#define GATE_KNOWN_BURST 65536

/* wire::steer::PassReason */
#define PASS_FOREIGN 0
#define PASS_OTHER_HOST 1
