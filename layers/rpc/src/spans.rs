//! Spans of `tracing`, level `DEBUG`: `call` around each call of this side, `serve` around each run of a method. Without the feature `tracing`
//! there is no code of them.

#[cfg(feature = "tracing")]
mod with {
    use am_api::EndpointName;

    use crate::calls::{Called, Ending};
    use crate::method::{MethodInfo, ServiceInfo};

    /// A span.
    pub(crate) use tracing::Span;

    /// Around a call of this side. [`ended`] says how it ended.
    pub(crate) fn call(called: Called) -> Span {
        let (service, method) = (called.service.name, called.method.name);
        tracing::debug_span!("call", service, method, outcome = tracing::field::Empty)
    }

    /// A call has this outcome.
    pub(crate) fn ended(span: &Span, ending: &Ending) {
        match ending {
            Ending::Answer(status, _) => span.record("outcome", tracing::field::debug(status)),
            Ending::NoAnswer(error) => span.record("outcome", tracing::field::display(error)),
        };
    }

    /// Around a run of a method. The name of the caller is looked up if the span is recorded.
    pub(crate) fn serve(
        service: &ServiceInfo,
        method: &MethodInfo,
        caller: impl FnOnce() -> Option<EndpointName>,
    ) -> Span {
        let span =
            tracing::debug_span!("serve", service = service.name, method = method.name, caller = tracing::field::Empty);
        if !span.is_disabled() {
            caller().into_iter().for_each(|caller| _ = span.record("caller", tracing::field::display(caller)));
        }
        span
    }
}

#[cfg(not(feature = "tracing"))]
mod with {
    use am_api::EndpointName;

    use crate::calls::{Called, Ending};
    use crate::method::{MethodInfo, ServiceInfo};

    /// No span.
    #[derive(Debug)]
    pub(crate) struct Span;

    impl Span {
        #[inline]
        #[expect(clippy::unused_self, reason = "as the span of `tracing`")]
        pub(crate) fn in_scope<T>(&self, run: impl FnOnce() -> T) -> T {
            run()
        }
    }

    #[inline]
    pub(crate) fn call(_: Called) -> Span {
        Span
    }

    #[inline]
    pub(crate) fn ended(_: &Span, _: &Ending) {}

    #[inline]
    pub(crate) fn serve(_: &ServiceInfo, _: &MethodInfo, _: impl FnOnce() -> Option<EndpointName>) -> Span {
        Span
    }
}

pub(crate) use with::{Span, call, ended, serve};
