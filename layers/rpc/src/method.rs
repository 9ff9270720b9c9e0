//! What a method is called on the wire: a number for its name, and one for its signature.

use std::fmt;

use crate::codec::Wire;

/// A method on the wire. Two programs mean the same method if the names agree, and can call it if the signatures agree, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MethodId {
    /// Of `Service.method`.
    pub name: u32,
    /// Of the types of arguments, result and error: their layout, not their names.
    pub signature: u32,
}

impl MethodId {
    /// The id of a method. Made at compile time, by [`service`](crate::service).
    pub const fn new(service: &str, method: &str, schemas: &[u64]) -> MethodId {
        let name = fold(fold(fold(OFFSET, service.as_bytes()), b"."), method.as_bytes());
        let (mut signature, mut at) = (OFFSET, 0);
        while at < schemas.len() {
            signature = fold(signature, &schemas[at].to_le_bytes());
            at += 1;
        }
        MethodId { name: (name ^ name >> 32) as u32, signature: (signature ^ signature >> 32) as u32 }
    }

    /// As the word of a message.
    #[inline]
    pub(crate) const fn to_word(self) -> u64 {
        (self.name as u64) << 32 | self.signature as u64
    }

    #[inline]
    pub(crate) const fn of_word(word: u64) -> MethodId {
        MethodId { name: (word >> 32) as u32, signature: word as u32 }
    }
}

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a.
const fn fold(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// How a method runs where its call arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum Runs {
    /// To completion, on the node's thread.
    Inline,
    /// It is polled once on the node's thread, and becomes a task if it is not ready.
    Async,
    /// On a thread of the pool.
    Blocking,
}

/// A method of a service: what [`service`](crate::service) knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodInfo {
    /// Its name on the wire.
    pub id: MethodId,
    /// Its name in the source.
    pub name: &'static str,
    /// How it runs.
    pub runs: Runs,
    /// Whether running it twice is as running it once: [`Peer::retrying`](crate::Peer::retrying) sends such calls again.
    pub is_idempotent: bool,
}

/// The methods of a service that a client was built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceInfo {
    /// The name of the trait.
    pub name: &'static str,
    /// Its methods, in the order of the source.
    pub methods: &'static [MethodInfo],
}

/// What a server of another version has of a service: see [`CallError::Mismatch`](crate::CallError::Mismatch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skew {
    /// The service and the method that was called.
    pub called: (&'static str, &'static str),
    /// The methods that both have.
    pub shared: Vec<&'static str>,
    /// The methods that both have, with different signatures.
    pub changed: Vec<&'static str>,
    /// The methods that the server lacks.
    pub missing: Vec<&'static str>,
}

impl Skew {
    /// The methods of a client beside those of a server.
    pub(crate) fn new(service: &'static ServiceInfo, method: &MethodInfo, server: &[MethodId]) -> Skew {
        let mut skew = Skew { called: (service.name, method.name), shared: vec![], changed: vec![], missing: vec![] };
        for own in service.methods {
            let list = match server.iter().find(|theirs| theirs.name == own.id.name) {
                Some(theirs) if theirs.signature == own.id.signature => &mut skew.shared,
                Some(_) => &mut skew.changed,
                None => &mut skew.missing,
            };
            list.push(own.name);
        }
        skew
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, method) = self.called;
        write!(f, "the server has another version of {service}.{method}: ")?;
        for (what, names) in [("same", &self.shared), ("changed", &self.changed), ("missing", &self.missing)] {
            if !names.is_empty() {
                write!(f, "{what}: {}; ", names.join(", "))?;
            }
        }
        f.write_str("build both from one version of the trait")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(name: &str, signature: u64) -> MethodId {
        MethodId::new("Store", name, &[signature])
    }

    #[test]
    fn names_and_signatures_are_told_apart() {
        assert_eq!(id("get", 1), id("get", 1));
        assert_eq!(id("get", 1).name, id("get", 2).name);
        assert_ne!(id("get", 1).signature, id("get", 2).signature);
        assert_ne!(id("get", 1).name, id("put", 1).name);
        assert_ne!(MethodId::new("Stor", "eget", &[]).name, MethodId::new("Store", "get", &[]).name);
        assert_eq!(MethodId::of_word(id("get", 1).to_word()), id("get", 1));
    }

    #[test]
    fn a_skew_lists_each_method_once() {
        const fn info(name: &'static str) -> MethodInfo {
            MethodInfo { id: id(name, 1), name, runs: Runs::Inline, is_idempotent: false }
        }
        static SERVICE: ServiceInfo = ServiceInfo { name: "Store", methods: &[info("get"), info("put"), info("scan")] };
        let skew = Skew::new(&SERVICE, &SERVICE.methods[1], &[id("get", 1), id("put", 2), id("other", 1)]);
        assert_eq!(
            (&skew.shared[..], &skew.changed[..], &skew.missing[..]),
            (&["get"][..], &["put"][..], &["scan"][..])
        );
        let text = "the server has another version of Store.put: same: get; changed: put; missing: scan; \
                    build both from one version of the trait";
        assert_eq!(skew.to_string(), text);
    }
}
