//! A client and a server of different versions: each is the older one.

use am_api::{CallId, HandlerId, Request};
use am_rpc::{CallError, Rpc, service};

use crate::common::{drive, pair, peer};

/// What both versions have, in another order; a method that has changed; and one that only one of them has.
mod older {
    #[am_rpc::service]
    pub(crate) trait Store {
        fn get(&self, key: &str) -> u64;
        fn put(&self, key: &str, value: u64);
        async fn wait(&self, key: &str) -> u64;
        fn removed(&self);
    }
}

mod newer {
    #[am_rpc::service]
    pub(crate) trait Store {
        fn added(&self, key: &str) -> bool;
        async fn wait(&self, key: &str) -> u64;
        fn put(&self, key: &str, value: u64, is_new: bool);
        fn get(&self, key: &str) -> u64;
    }
}

struct Older;

impl older::Store for Older {
    fn get(&self, key: &str) -> u64 {
        key.len() as u64
    }

    fn put(&self, _: &str, _: u64) {
        panic!("another version called it");
    }

    async fn wait(&self, key: &str) -> u64 {
        key.len() as u64
    }

    fn removed(&self) {}
}

struct Newer;

impl newer::Store for Newer {
    fn added(&self, _: &str) -> bool {
        true
    }

    async fn wait(&self, key: &str) -> u64 {
        key.len() as u64
    }

    fn put(&self, _: &str, _: u64, _: bool) {
        panic!("another version called it");
    }

    fn get(&self, key: &str) -> u64 {
        key.len() as u64
    }
}

#[test]
fn an_older_client_calls_a_newer_server() {
    let mut sides = pair();
    sides[1].rpc.serve(newer::StoreServer::new(Newer)).unwrap();
    let client = older::StoreClient::new(&peer(&sides[0], "beta"));
    assert_eq!(drive(&mut sides, client.get("color")), Ok(5));
    assert_eq!(drive(&mut sides, client.wait("size")), Ok(4));
    let Err(CallError::Mismatch(skew)) = drive(&mut sides, client.put("color", 1)) else { panic!() };
    assert_eq!((skew.called, &skew.changed[..], &skew.missing[..]), (("Store", "put"), &["put"][..], &["removed"][..]));
    assert_eq!(skew.shared, ["get", "wait"]);
    assert!(matches!(drive(&mut sides, client.removed()), Err(CallError::UnknownMethod(_))));
    assert_eq!(drive(&mut sides, client.get("color")), Ok(5));
}

#[test]
fn a_newer_client_calls_an_older_server() {
    let mut sides = pair();
    sides[1].rpc.serve(older::StoreServer::new(Older)).unwrap();
    let client = newer::StoreClient::new(&peer(&sides[0], "beta"));
    assert_eq!(drive(&mut sides, client.get("color")), Ok(5));
    assert_eq!(drive(&mut sides, client.wait("size")), Ok(4));
    let Err(CallError::Mismatch(skew)) = drive(&mut sides, client.put("color", 1, true)) else { panic!() };
    assert_eq!((skew.called, &skew.changed[..], &skew.missing[..]), (("Store", "put"), &["put"][..], &["added"][..]));
    assert_eq!(skew.shared, ["wait", "get"]);
    assert!(matches!(drive(&mut sides, client.added("color")), Err(CallError::UnknownMethod(_))));
    assert_eq!(drive(&mut sides, client.get("color")), Ok(5));
}

#[service]
#[expect(dead_code, reason = "only its client is used")]
trait Any {
    fn any(&self) -> u64;
}

/// A later version of the layer has further outcomes: the method may have run, whatever they mean.
#[test]
fn an_outcome_of_another_version_may_have_run() {
    const RUNNING: u64 = 2;
    const UNHEARD_OF: u64 = 99;
    let [mut alpha, beta] = pair();
    let node = beta.node;
    drop(beta.rpc);
    let mut server = node.endpoint::<bool>("rpc").unwrap();
    server.on_request(HandlerId(0), |is_task, Request { message, token }| {
        let (id, from) = (CallId(message.word(0)), message.from());
        token.answer(&[if *is_task { RUNNING } else { UNHEARD_OF }], b"").unwrap();
        if *is_task {
            message.endpoint().try_request(from, HandlerId(1), &[id.0, UNHEARD_OF], b"").unwrap();
        }
    });
    let client = AnyClient::new(&peer(&alpha, "beta"));
    for mut is_task in [false, true] {
        let mut call = std::pin::pin!(client.any());
        let outcome = loop {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            if let std::task::Poll::Ready(outcome) = call.as_mut().poll(&mut context) {
                break outcome.unwrap_err();
            }
            Rpc::poll(&mut alpha.rpc);
            server.poll(&mut is_task);
        };
        assert!(outcome.may_have_run(), "{outcome}");
        assert_eq!(
            outcome.to_string(),
            "the result could not be read: the bytes are no outcome that this version knows"
        );
        assert_eq!(alpha.rpc.under_way(), 0);
    }
}
