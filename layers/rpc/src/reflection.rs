//! What each endpoint tells of itself: its services, their health, and what their methods have done.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use crate::codec::Wire;
use crate::dispatch::Dispatch;
use crate::method::Runs;
use crate::service;
use crate::statistics::MethodStatistics;

/// Whether a service can be called, as its program says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub enum Health {
    /// It can. A program that says nothing means this.
    #[default]
    Serving,
    /// It cannot now: [`Rpc::set_health`](crate::Rpc::set_health). Its methods run nevertheless.
    NotServing,
    /// Its endpoint [shuts down](crate::Rpc::shut_down).
    ShuttingDown,
}

/// A service that an endpoint serves.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub struct ServiceDescription {
    /// The name of its trait.
    pub name: String,
    /// Whether it can be called.
    pub health: Health,
    /// Its methods, in the order of the source.
    pub methods: Vec<MethodDescription>,
}

/// A method of a service that an endpoint serves.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub struct MethodDescription {
    /// Its name in the source.
    pub name: String,
    /// [Of the types](crate::MethodId) of arguments, result and error. A client that has the same number can call it.
    pub signature: u32,
    /// How it runs.
    pub runs: Runs,
    /// Whether running it twice is as running it once.
    pub is_idempotent: bool,
}

/// The service that each endpoint serves without being asked, also while it shuts down: `ReflectionClient::new(&peer)`.
#[service]
pub trait Reflection {
    /// The services of the endpoint, in the order in which they were served.
    #[idempotent]
    fn services(&self) -> Vec<ServiceDescription>;
    /// Whether the service of this name can be called. `None` if it is not served.
    #[idempotent]
    fn health(&self, service: &str) -> Option<Health>;
    /// What each method has done since it is served.
    #[idempotent]
    fn statistics(&self) -> Vec<MethodStatistics>;
}

/// [`Reflection`] of an endpoint.
pub(crate) struct Mirror {
    of: Weak<Dispatch>,
    said: Rc<HealthTable>,
}

/// What the program has said of its services' health.
pub(crate) type HealthTable = RefCell<HashMap<String, Health>>;

impl Mirror {
    pub(crate) fn new(of: &Rc<Dispatch>, said: Rc<HealthTable>) -> Mirror {
        Mirror { of: Rc::downgrade(of), said }
    }
}

impl Reflection for Mirror {
    fn services(&self) -> Vec<ServiceDescription> {
        let Some(dispatch) = self.of.upgrade() else { return vec![] };
        let mut all: Vec<ServiceDescription> = vec![];
        for tally in dispatch.tallies() {
            let (name, method) = (tally.service.name, tally.method);
            if all.last().is_none_or(|last| last.name != name) {
                let health = self.said.borrow().get(name).copied().unwrap_or_default();
                let health = if dispatch.is_shut_down.get() { Health::ShuttingDown } else { health };
                all.push(ServiceDescription { name: name.into(), health, methods: vec![] });
            }
            let (signature, runs, is_idempotent) = (method.id.signature, method.runs, method.is_idempotent);
            let described = MethodDescription { name: method.name.into(), signature, runs, is_idempotent };
            all.last_mut().into_iter().for_each(|last| last.methods.push(described.clone()));
        }
        all
    }

    fn health(&self, service: &str) -> Option<Health> {
        self.services().into_iter().find(|each| each.name == service).map(|each| each.health)
    }

    fn statistics(&self) -> Vec<MethodStatistics> {
        self.of.upgrade().map_or_else(Vec::new, |dispatch| dispatch.statistics())
    }
}
