//! Spans of `tracing`.

use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::common::{drive, served};

/// Writes down what it hears.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        *self.0 += &format!(" {field}={value:?}");
    }
}

impl Notes {
    fn add(&self, mut line: String, fields: impl FnOnce(&mut Line<'_>)) {
        fields(&mut Line(&mut line));
        self.0.lock().unwrap().push(line);
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("am_rpc")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.add(span.metadata().name().into(), |line| span.record(line));
        Id::from_u64(self.0.lock().unwrap().len() as u64)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.add("..".into(), |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, of: &Id) {
        self.add(format!("enter {}", of.into_u64()), |_| {});
    }

    fn exit(&self, _: &Id) {}
}

#[test]
fn calls_and_methods_have_spans() {
    let (mut sides, store, _) = served();
    let notes = Notes::default();
    tracing::subscriber::with_default(notes.clone(), || {
        drive(&mut sides, store.double(2)).unwrap();
        drive(&mut sides, store.get("color")).unwrap_err();
    });
    drive(&mut sides, store.double(2)).unwrap();
    let heard = notes.0.lock().unwrap().clone();
    let expected = [
        "call service=\"Store\" method=\"double\"",
        "serve service=\"Store\" method=\"double\"",
        ".. caller=alpha/rpc",
        "enter 2",
        ".. outcome=Value",
        "call service=\"Store\" method=\"get\"",
        "serve service=\"Store\" method=\"get\"",
        ".. caller=alpha/rpc",
        "enter 7",
        ".. outcome=Error",
    ];
    assert_eq!(heard, expected);
}
