//! Calls that arrive: to which service each goes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::time::Duration;

use am_api::{Endpoint, Request};

use crate::error::ServeError;
use crate::incoming::Incoming;
use crate::method::MethodId;
use crate::runtime::Runtime;
use crate::service::Service;
use crate::status::{CALL, Status};

/// Where the call of a method goes.
#[derive(Clone, Copy)]
struct Route {
    service: usize,
    method: usize,
    signature: u32,
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
    services: RefCell<Vec<Rc<dyn Service>>>,
    routes: RefCell<HashMap<u32, Route, BuildHasherDefault<OfName>>>,
    pub(crate) is_shut_down: Cell<bool>,
}

impl Dispatch {
    pub(crate) fn new(endpoint: &mut Endpoint<()>, runtime: &Rc<Runtime>) -> Rc<Dispatch> {
        let dispatch = Rc::new(Dispatch {
            runtime: runtime.clone(),
            services: RefCell::default(),
            routes: RefCell::default(),
            is_shut_down: Cell::new(false),
        });
        let of_calls = dispatch.clone();
        endpoint.on_request(CALL, move |(), request| of_calls.on_call(request));
        dispatch
    }

    pub(crate) fn serve(&self, service: Rc<dyn Service>) -> Result<(), ServeError> {
        let info = service.info();
        let mut routes = self.routes.borrow_mut();
        if let Some(taken) = info.methods.iter().find(|method| routes.contains_key(&method.id.name)) {
            return Err(ServeError::Taken(info.name, taken.name));
        }
        let mut services = self.services.borrow_mut();
        for (index, method) in info.methods.iter().enumerate() {
            let route = Route { service: services.len(), method: index, signature: method.id.signature };
            routes.insert(method.id.name, route);
        }
        services.push(service);
        Ok(())
    }

    fn on_call(&self, request: Request<'_, ()>) {
        let Request { message, token } = request;
        let (method, allowance) = (MethodId::of_word(message.word(1)), message.word(2));
        let route = self.routes.borrow().get(&method.name).copied();
        let status = match route {
            _ if self.is_shut_down.get() => Status::ShuttingDown,
            None => Status::UnknownMethod,
            Some(route) if route.signature != method.signature => Status::Mismatch,
            Some(Route { service, method, .. }) => {
                // It has waited since it was received, in this turn or before.
                let due = self.runtime.sender.turn_time().saturating_add(Duration::from_nanos(allowance));
                if due <= self.runtime.sender.time() {
                    Status::Late
                } else {
                    let service = self.services.borrow()[service].clone();
                    return service.handle(method, Incoming::new(&self.runtime, message, token, due));
                }
            }
        };
        let methods = if matches!(status, Status::UnknownMethod | Status::Mismatch) { self.methods() } else { vec![] };
        // A peer that is gone needs no answer.
        _ = token.answer(&[status as u64], &methods);
    }

    /// The methods that are served, as a client reads them to say what it has in common.
    fn methods(&self) -> Vec<u8> {
        let services = self.services.borrow();
        let all = services.iter().flat_map(|service| service.info().methods);
        all.flat_map(|method| method.id.to_word().to_be_bytes()).collect()
    }
}
