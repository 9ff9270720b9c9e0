//! **The macros of `am-rpc`**, which exports them and documents what they write.
//!
//! ```text
//!   #[derive(Wire)] struct or enum ─▶ shape.rs    its variants and fields (a struct is one variant)
//!                                       └▶ wire.rs    impl Encode, impl Decode, impl Schema
//!   #[service] trait ─▶ service.rs    the trait, its client, its server
//! ```
//!
//! Read first: `service.rs`; then `shape.rs`.
#![forbid(unsafe_code)]

mod service;
mod shape;
mod wire;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemTrait, parse_macro_input};

/// Writes `Encode`, `Decode` and `Schema` of `am_rpc::codec` for a struct or an enum.
///
/// Fields travel in the order in which they are declared. An enum begins with the position of its variant, one byte. A field may borrow
/// from the frame with the type's lifetime: `&'a str`, `&'a [u8]`, `Plain<'a, T>`.
///
/// Types that contain each other (an `A` with a `Vec<B>`, a `B` with a `Vec<A>`) have no finite layout. Write `#[wire(recursive)]` at one
/// field of the circle: of this field the layout has the text of its type. A type that contains itself needs no attribute.
#[proc_macro_derive(Wire, attributes(wire))]
pub fn wire(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    shape::Shape::of(input).map_or_else(|error| error.into_compile_error(), |shape| wire::implement(&shape)).into()
}

/// Of `trait Store`: `StoreClient`, whose methods begin calls, and `StoreServer`, which runs an implementation of the trait where calls
/// arrive.
///
/// A method takes `&self`, then a `&Context` if it wants to know its caller, then its arguments, and returns a value or a `Result`. It runs
/// to completion where its call arrives. An `async` method may wait; `#[blocking]` gives a method a thread of a pool.
#[proc_macro_attribute]
pub fn service(arguments: TokenStream, input: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        return syn::Error::new(proc_macro2::Span::call_site(), "`#[service]` takes no arguments")
            .into_compile_error()
            .into();
    }
    service::implement(parse_macro_input!(input as ItemTrait)).unwrap_or_else(syn::Error::into_compile_error).into()
}
