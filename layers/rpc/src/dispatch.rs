//! Calls that arrive: to which service each goes.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

use am_api::{Connection, Endpoint, EndpointName, Request, Token};

use crate::error::ServeError;
use crate::incoming::Incoming;
use crate::method::{MethodId, MethodInfo};
use crate::runtime::Runtime;
use crate::service::Service;
use crate::statistics::{MethodStatistics, Tally};
use crate::status::{CALL, Status};

/// Whether this caller may call this method.
pub(crate) type Allows = Rc<dyn Fn(&EndpointName, &'static MethodInfo) -> bool>;

/// Where the call of a method goes.
struct Route {
    id: MethodId,
    service: Rc<dyn Service>,
    index: usize,
    allows: Option<Allows>,
    /// Whether it is answered while this side shuts down.
    is_always: bool,
    tally: Rc<Tally>,
}

/// Where the call of each method goes, by the number of its name: that is a hash already, and only the program adds names.
struct Routes {
    /// At the place of its number, or the next one that was free. At least half are free.
    places: Vec<Option<Rc<Route>>>,
    count: usize,
}

impl Default for Routes {
    fn default() -> Routes {
        Routes { places: vec![None; 16], count: 0 }
    }
}

impl Routes {
    /// The place of this name, or the free one where it belongs.
    #[inline]
    fn place(&self, name: u32) -> usize {
        let last = self.places.len() - 1;
        let mut at = name as usize & last;
        while self.places[at].as_ref().is_some_and(|route| route.id.name != name) {
            at = (at + 1) & last;
        }
        at
    }

    #[inline]
    fn find(&self, name: u32) -> Option<&Rc<Route>> {
        self.places[self.place(name)].as_ref()
    }

    fn add(&mut self, route: Route) {
        self.count += 1;
        if 2 * self.count > self.places.len() {
            let more = vec![None; 2 * self.places.len()];
            let all = std::mem::replace(&mut self.places, more);
            all.into_iter().flatten().for_each(|route| self.put(route));
        }
        self.put(Rc::new(route));
    }

    fn put(&mut self, route: Rc<Route>) {
        let place = self.place(route.id.name);
        self.places[place] = Some(route);
    }
}

/// The services of an endpoint.
pub(crate) struct Dispatch {
    runtime: Rc<Runtime>,
    /// Their methods, in the order of the program.
    tallies: RefCell<Vec<Rc<Tally>>>,
    routes: RefCell<Routes>,
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
        let is_taken = |method: &&MethodInfo| routes.find(method.id.name).is_some() || !own.insert(method.id.name);
        if let Some(taken) = info.methods.iter().find(is_taken) {
            return Err(ServeError::Taken(info.name, taken.name));
        }
        for (index, method) in info.methods.iter().enumerate() {
            let tally = Rc::new(Tally::new(info, method));
            self.tallies.borrow_mut().push(tally.clone());
            let allows = if let For::Allowed(allows) = to { Some(allows.clone()) } else { None };
            let (id, service, is_always) = (method.id, service.clone(), matches!(to, For::All));
            routes.add(Route { id, service, index, allows, is_always, tally });
        }
        Ok(())
    }

    fn on_call(&self, request: Request<'_, ()>) {
        let Request { message, token } = request;
        let (method, allowance) = (MethodId::of_word(message.word(1)), message.word(2));
        let route = self.routes.borrow().find(method.name).cloned();
        let Some(route) = route else { return self.refuse(token, Status::UnknownMethod) };
        let now = self.runtime.now();
        // It has waited since it was received, in this turn or before.
        let due = self.runtime.turn_time().saturating_add(allowance);
        let status = if route.id.signature != method.signature {
            Status::Mismatch
        } else if self.is_shut_down.get() && !route.is_always {
            Status::ShuttingDown
        } else if due <= now {
            Status::Late
        } else if !self.is_allowed(&route, message.from()) {
            Status::Forbidden
        } else {
            let call = Incoming::new(&self.runtime, &route.tally, &message, token, due);
            return route.service.handle(route.index, call);
        };
        route.tally.ended(status, 0);
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
