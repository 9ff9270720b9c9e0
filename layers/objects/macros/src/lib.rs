//! **The macros of `am-objects`**, which exports them and documents what they write.
//!
//! ```text
//!   #[object] impl Queue ─▶ operation.rs   each function: reads or writes, its guard, its arguments
//!                             └▶ object.rs     the functions, impl Object, the traits that callers use
//! ```
//!
//! Read first: `operation.rs`, then `object.rs`.
#![forbid(unsafe_code)]

mod object;
mod operation;

use proc_macro::TokenStream;
use syn::{ItemImpl, parse_macro_input};

/// Of `impl Queue`: the operations of the object type `Queue`. See `am_objects::object`.
#[proc_macro_attribute]
pub fn object(arguments: TokenStream, input: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        return syn::Error::new(proc_macro2::Span::call_site(), "`#[object]` takes no arguments")
            .into_compile_error()
            .into();
    }
    object::implement(parse_macro_input!(input as ItemImpl)).unwrap_or_else(syn::Error::into_compile_error).into()
}
