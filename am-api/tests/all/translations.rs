//! The translation table of an endpoint, and the limit of each table against the documented one.

use std::mem;

use crate::common::{in_memory, nodes, plain, until};
use crate::page::documented;
use am_api::{
    ConnectError, EndpointError, GroupError, GroupMember, HandlerId, MAX_TRANSFERS, MAX_TRANSLATIONS, MapError,
    NotOpen, Placement, RegionId, RequestError, ReturnReason, WINDOW,
};

#[test]
fn entries_are_mapped_and_unmapped_while_running() {
    let (mut alpha, mut beta) = nodes::<(), ()>(plain("alpha"), plain("beta"));
    let other = beta.node.endpoint_with_tag::<()>("other", 7).expect("an endpoint");
    let first = alpha.endpoint.map(5, "beta", "main", 0).expect("asked for");
    assert_eq!(alpha.endpoint.map(5, "beta", "other", 7), Err(MapError::InUse(5)));
    assert_eq!(alpha.endpoint.map_any("beta", "other", 7), Ok(0));
    let second = alpha.endpoint.translation(0).expect("mapped");
    until(&mut alpha, &mut beta, "open", |alpha, _| [first, second].iter().all(|to| alpha.endpoint.is_open(*to)));
    let index_of = |alpha: &am_api::Endpoint<()>, name| alpha.translation_index("beta", name);
    assert_eq!([index_of(&alpha.endpoint, "main"), index_of(&alpha.endpoint, "other")], [Some(5), Some(0)]);
    assert!(alpha.endpoint.unmap(5) && !alpha.endpoint.unmap(5));
    assert_eq!((alpha.endpoint.translation(5), index_of(&alpha.endpoint, "main")), (None, None));
    assert_eq!(alpha.endpoint.ready(first), Err(NotOpen::Closed));
    // The peer's tag changes: the entry stays until it is mapped again.
    other.set_tag(8);
    until(&mut alpha, &mut beta, "ended", |alpha, _| !alpha.endpoint.is_open(second));
    assert_eq!(alpha.endpoint.ready(second), Err(NotOpen::Dead(ReturnReason::Tag)));
    let again = alpha.endpoint.map(0, "beta", "other", 8).expect("asked for");
    until(&mut alpha, &mut beta, "open again", |alpha, _| alpha.endpoint.is_open(again));
    assert_eq!(alpha.endpoint.translation(0), Some(again));
}

#[test]
fn what_cannot_be_mapped() {
    let (alpha, _beta) = nodes::<(), ()>(plain("alpha"), plain("beta"));
    assert_eq!(alpha.endpoint.map(MAX_TRANSLATIONS, "beta", "main", 0), Err(MapError::NoSuchIndex(MAX_TRANSLATIONS)));
    let own = alpha.endpoint.map(0, "alpha", "main", 0);
    assert!(matches!(own, Err(MapError::Connect(ConnectError::OwnNode(_)))), "{own:?}");
    assert_eq!(alpha.endpoint.translation(0), None);
}

#[test]
fn connections_and_translations_end_where_the_page_says() {
    let (left, _right) = in_memory();
    let node = plain("alpha").open_on(left).expect("a node");
    let endpoint = node.endpoint::<()>("main").expect("an endpoint");
    for index in 0..documented("connections of a node") {
        assert_eq!(endpoint.map_any("beta", "main", 0), Ok(index));
    }
    assert_eq!(documented("entries of an endpoint's translation table"), MAX_TRANSLATIONS);
    assert_eq!(endpoint.map_any("beta", "main", 0), Err(MapError::Full));
    assert_eq!(endpoint.connect("beta", "main"), Err(ConnectError::NoFlow));
    assert!(endpoint.unmap(77));
    assert_eq!(endpoint.map_any("beta", "main", 0), Ok(77));
    mem::forget((endpoint, node));
}

#[test]
fn endpoints_end_where_the_page_says() {
    let (left, _right) = in_memory();
    let node = plain("alpha").open_on(left).expect("a node");
    for number in 0..documented("endpoints of a node") {
        mem::forget(node.endpoint::<()>(&number.to_string()).expect("an endpoint"));
    }
    let error = node.endpoint::<()>("one more").err();
    assert_eq!(error, Some(EndpointError::TooMany));
    mem::forget(node);
}

#[test]
fn messages_end_where_the_page_says() {
    assert_eq!(documented("handlers of an endpoint, of each class"), usize::from(u8::MAX) + 1);
    assert_eq!(documented("requests in flight on a connection"), WINDOW);
    let (mut alpha, mut beta, to) = crate::common::connected::<(), ()>();
    let most = documented("words of a message");
    let words = vec![1; most + 1];
    let send = |words: &[u64]| alpha.endpoint.try_request(to, HandlerId(255), words, b"");
    assert_eq!(
        (send(&words[..most]), send(&words)),
        (Ok(()), Err(RequestError::TooManyWords { count: most + 1, most }))
    );
    let longest = "n".repeat(documented("bytes of a name"));
    assert!(beta.node.endpoint::<()>(&longest).is_ok());
    assert!(matches!(beta.node.endpoint::<()>(&format!("{longest}n")), Err(EndpointError::Name(_))));
    until(&mut alpha, &mut beta, "drained", |alpha, _| alpha.endpoint.is_accepted(to));
}

/// The tests of `proto` and of the transfers fill these tables.
#[test]
fn the_page_has_the_constants_of_the_other_tables() {
    for table in ["known peers of a node", "members that a node watches"] {
        assert_eq!(documented(table), am_proto::MAX_PEERS, "{table}");
    }
    for table in ["puts of peers under way at a node", "gets of peers under way at a node"] {
        assert_eq!(documented(table), MAX_TRANSFERS, "{table}");
    }
    // The number 0 is no region's.
    assert_eq!(RegionId(u32::MAX).0 as usize, documented("bulk regions of a node"));
}

#[test]
fn groups_end_where_the_page_says() {
    let most = documented("members of a group");
    let group = |size| GroupMember::group("server", vec!["sim:71"; size], Placement::Load).map(|members| members.len());
    assert_eq!((group(most), group(most + 1)), (Ok(most), Err(GroupError::Size(most + 1))));
}
