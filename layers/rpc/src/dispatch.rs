//! Calls that arrive: to which service each goes.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::time::Duration;

use am_api::{Connection, Endpoint, EndpointName, Request, Token};

use crate::error::ServeError;
use crate::incoming::{Incoming, Timing};
use crate::method::{MethodId, MethodInfo};
use crate::runtime::Runtime;
use crate::service::Service;
use crate::statistics::{MethodStatistics, Tally};
use crate::status::{CALL, Status};

/// Whether this caller may call this method.
pub(crate) type Allows = Rc<dyn Fn(&EndpointName, &'static MethodInfo) -> bool>;

/// Where the call of a method goes.
struct Route {
    service: Rc<dyn Service>,
    index: usize,
    allows: Option<Allows>,
    /// Whether it is answered while this side shuts down.
    is_always: bool,
    tally: Rc<Tally>,
}

/// The number of a name is a hash already. Only the program adds names.
#[derive(Default)]
struct OfName(u64);

impl Hasher for OfName {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u32(&mut self, number: u32) {
        // The table looks at both ends of the hash.
        self.0 = u64::from(number) << 32 | u64::from(number);
    }
}

/// The services of an endpoint.
pub(crate) struct Dispatch {
    runtime: Rc<Runtime>,
    /// Their methods, in the order of the program.
    tallies: RefCell<Vec<Rc<Tally>>>,
    routes: RefCell<HashMap<u32, Rc<Route>, BuildHasherDefault<OfName>>>,
    pub(crate) is_shut_down: Cell<bool>,
}

/// Which callers a service has.
pub(crate) enum For {
    /// All callers, also while this side shuts down.
    All,
    /// All callers.
    Callers,
    /// Callers that are allowed.
    Allowed(Allows),
}

impl Dispatch {
    pub(crate) fn new(endpoint: &mut Endpoint<()>, runtime: &Rc<Runtime>) -> Rc<Dispatch> {
        let dispatch = Rc::new(Dispatch {
            runtime: runtime.clone(),
            tallies: RefCell::default(),
            routes: RefCell::default(),
            is_shut_down: Cell::new(false),
        });
        let of_calls = dispatch.clone();
        endpoint.on_request(CALL, move |(), request| of_calls.on_call(request));
        dispatch
    }

    pub(crate) fn serve(&self, service: Rc<dyn Service>, to: &For) -> Result<(), ServeError> {
        let info = service.info();
        let mut routes = self.routes.borrow_mut();
        // Two methods of one service may have one number, too.
        let mut own = HashSet::new();
        let is_taken = |method: &&MethodInfo| routes.contains_key(&method.id.name) || !own.insert(method.id.name);
        if let Some(taken) = info.methods.iter().find(is_taken) {
            return Err(ServeError::Taken(info.name, taken.name));
        }
        for (index, method) in info.methods.iter().enumerate() {
            let tally = Rc::new(Tally::new(info, method));
            self.tallies.borrow_mut().push(tally.clone());
            let allows = if let For::Allowed(allows) = to { Some(allows.clone()) } else { None };
            let route = Route { service: service.clone(), index, allows, is_always: matches!(to, For::All), tally };
            routes.insert(method.id.name, Rc::new(route));
        }
        Ok(())
    }

    fn on_call(&self, request: Request<'_, ()>) {
        let Request { message, token } = request;
        let (method, allowance) = (MethodId::of_word(message.word(1)), message.word(2));
        let route = self.routes.borrow().get(&method.name).cloned();
        let Some(route) = route else { return self.refuse(token, Status::UnknownMethod) };
        let now = self.runtime.now();
        // It has waited since it was received, in this turn or before.
        let due = self.runtime.sender.turn_time().saturating_add(Duration::from_nanos(allowance));
        let status = if route.tally.method.id.signature != method.signature {
            Status::Mismatch
        } else if self.is_shut_down.get() && !route.is_always {
            Status::ShuttingDown
        } else if due <= now {
            Status::Late
        } else if !self.is_allowed(&route, message.from()) {
            Status::Forbidden
        } else {
            let timing = Timing { begun: now, due };
            return route
                .service
                .handle(route.index, Incoming::new(&self.runtime, &route.tally, message, token, timing));
        };
        route.tally.ended(status, Duration::ZERO);
        self.refuse(token, status);
    }

    fn is_allowed(&self, route: &Route, caller: Connection) -> bool {
        let Some(allows) = &route.allows else { return true };
        self.runtime.caller(caller).is_some_and(|caller| allows(&caller, route.tally.method))
    }

    #[cold]
    fn refuse(&self, token: Token, status: Status) {
        let methods = if matches!(status, Status::UnknownMethod | Status::Mismatch) { self.methods() } else { vec![] };
        // A peer that is gone needs no answer.
        _ = token.answer(&[status as u64], &methods);
    }

    /// The methods that are served, as a client reads them to say what it has in common.
    fn methods(&self) -> Vec<u8> {
        self.tallies.borrow().iter().flat_map(|tally| tally.method.id.to_word().to_be_bytes()).collect()
    }

    /// What each method has done.
    pub(crate) fn statistics(&self) -> Vec<MethodStatistics> {
        self.tallies.borrow().iter().map(|tally| tally.read()).collect()
    }

    /// The methods, in the order in which they were served.
    pub(crate) fn tallies(&self) -> Vec<Rc<Tally>> {
        self.tallies.borrow().clone()
    }
}
