//! `#[service]`: of a trait, its client and its server.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, ItemTrait, Lifetime, Pat, PathArguments, Result, ReturnType,
    TraitItem, TraitItemFn, Type, TypeReference,
};

/// A method of the trait.
struct Method {
    name: Ident,
    docs: Vec<Attribute>,
    runs: Runs,
    is_idempotent: bool,
    /// Whether it gets the context first.
    has_context: bool,
    arguments: Vec<(Ident, Type)>,
    /// The names of all arguments, in their order.
    all: Vec<Ident>,
    /// The arguments that are streams.
    streams: Vec<StreamArgument>,
    value: Type,
    /// `None` if it cannot fail.
    error: Option<Type>,
    /// Whether the result borrows.
    borrows: bool,
}

/// A stream as an argument: the method writes items to its caller, or reads them.
struct StreamArgument {
    name: Ident,
    item: Type,
    writes: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Runs {
    Inline,
    Async,
    Blocking,
}

/// Writes the trait, the client and the server.
pub(crate) fn implement(mut input: ItemTrait) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        let why = "a service has no generics: its name on the wire would not say which types are meant";
        return Err(Error::new(input.generics.span(), why));
    }
    let mut methods = Vec::new();
    for item in &mut input.items {
        match item {
            TraitItem::Fn(function) => methods.push(Method::of(function)?),
            other => return Err(Error::new(other.span(), "a service has methods only")),
        }
    }
    check_views(&input.ident, &methods)?;
    let (client, server) = (client(&input, &methods), server(&input, &methods));
    Ok(quote!(#input #client #server))
}

impl Method {
    /// Reads a method, and leaves what the trait keeps of it.
    fn of(function: &mut TraitItemFn) -> Result<Method> {
        let is_blocking = take_attribute(&mut function.attrs, "blocking")?;
        let is_idempotent = take_attribute(&mut function.attrs, "idempotent")?;
        let signature = &mut function.sig;
        check_kind(signature)?;
        let is_async = signature.asyncness.take().is_some();
        let runs = match (is_async, is_blocking) {
            (true, true) => {
                let why = "a blocking method has a thread of the pool, so it need not be `async`";
                return Err(Error::new(signature.span(), why));
            }
            (true, false) => Runs::Async,
            (false, true) => Runs::Blocking,
            (false, false) => Runs::Inline,
        };
        if let Some(body) = &function.default {
            return Err(Error::new(body.span(), "a method has no body here: the implementation of the trait has it"));
        }
        if let Some(cfg) = function.attrs.iter().find(|each| each.path().is_ident("cfg")) {
            return Err(Error::new(cfg.span(), "a service has all its methods: put `#[cfg]` at the trait"));
        }
        let Inputs { has_context, arguments, streams } = inputs(signature)?;
        check_streams(signature, &streams, runs)?;
        if is_idempotent && !streams.is_empty() {
            let why = "a call with a stream is not sent again, because its items are gone: leave `#[idempotent]` out";
            return Err(Error::new(signature.span(), why));
        }
        if has_context && runs == Runs::Blocking {
            let why = "a blocking method runs on another thread, and the context stays on the node's";
            return Err(Error::new(signature.span(), why));
        }
        let (value, error) = result(&signature.output)?;
        let borrows = has_borrow(&value) || error.as_ref().is_some_and(has_borrow);
        if borrows && runs != Runs::Inline {
            let why = "the result outlives the call's arguments, so it cannot borrow: return an owned value";
            return Err(Error::new(signature.output.span(), why));
        }
        if error.as_ref().is_some_and(has_borrow) {
            return Err(Error::new(signature.output.span(), "an error cannot borrow: return an owned value"));
        }
        let name = signature.ident.clone();
        if name == "new" || name == "peer" || name == "SERVICE" {
            let why = "the client has a function of this name: call the method something else";
            return Err(Error::new(name.span(), why));
        }
        if runs == Runs::Async {
            let output = match &signature.output {
                ReturnType::Default => quote!(()),
                ReturnType::Type(_, ty) => quote!(#ty),
            };
            signature.output = syn::parse_quote!(-> impl ::core::future::Future<Output = #output>);
        }
        let docs = function.attrs.iter().filter(|each| each.path().is_ident("doc")).cloned().collect();
        let all = signature.inputs.iter().filter_map(named).collect();
        Ok(Method { name, docs, runs, is_idempotent, has_context, all, arguments, streams, value, error, borrows })
    }

    fn names(&self) -> impl Iterator<Item = &Ident> {
        self.arguments.iter().map(|(name, _)| name)
    }

    fn types(&self) -> impl Iterator<Item = &Type> {
        self.arguments.iter().map(|(_, ty)| ty)
    }

    /// The context as an argument, if the method takes it.
    fn context(&self, context: &TokenStream) -> TokenStream {
        if self.has_context { quote!(#context,) } else { quote!() }
    }

    /// The expression as a result of a method.
    fn wrapped(&self, call: &TokenStream) -> TokenStream {
        match self.error {
            Some(_) => call.clone(),
            None => quote!(::am_rpc::generated::Returned(#call)),
        }
    }

    /// The name of the type that stands for a borrowing result.
    fn view(&self, of: &Ident) -> Ident {
        let camel: String = self.name.unraw().to_string().split('_').map(capital).collect();
        format_ident!("{of}{camel}Result")
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Whether the attribute is there. It is taken out.
fn take_attribute(attributes: &mut Vec<Attribute>, name: &str) -> Result<bool> {
    let before = attributes.len();
    for attribute in attributes.iter().filter(|each| each.path().is_ident(name)) {
        attribute.meta.require_path_only()?;
    }
    attributes.retain(|each| !each.path().is_ident(name));
    Ok(attributes.len() < before)
}

/// What a method cannot be.
fn check_kind(signature: &syn::Signature) -> Result<()> {
    if let Some(word) = &signature.unsafety {
        return Err(Error::new(
            word.span(),
            "a method is called by other programs, which can promise nothing: leave `unsafe` out",
        ));
    }
    if let Some(abi) = &signature.abi {
        return Err(Error::new(abi.span(), "a method is called by a message, and has no ABI: leave `extern` out"));
    }
    let (generics, why) = (&signature.generics, "a method has no generics: its signature is one number");
    if !generics.params.is_empty() {
        return Err(Error::new(generics.span(), why));
    }
    generics.where_clause.as_ref().map_or(Ok(()), |clause| Err(Error::new(clause.span(), why)))
}

/// Two methods may differ in underscores only.
fn check_views(of: &Ident, methods: &[Method]) -> Result<()> {
    let mut views: Vec<(Ident, &Ident)> = vec![];
    for method in methods.iter().filter(|method| method.borrows) {
        let (view, name) = (method.view(of), &method.name);
        if let Some((_, first)) = views.iter().find(|(other, _)| *other == view) {
            let why = format!(
                "the result of `{name}` would have the type `{view}`, as that of `{first}`: rename one of them"
            );
            return Err(Error::new(name.span(), why));
        }
        views.push((view, name));
    }
    Ok(())
}

/// What the code of an argument's type would say less clearly.
struct Unsendable {
    /// Why a `'static` is wrong here.
    why_static: &'static str,
    found: Option<Error>,
}

impl VisitMut for Unsendable {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "static" {
            self.found.get_or_insert_with(|| Error::new(lifetime.span(), self.why_static));
        }
    }

    fn visit_type_reference_mut(&mut self, ty: &mut TypeReference) {
        if let Some(word) = &ty.mutability {
            let why =
                "an argument is a copy or a view of bytes that have arrived: leave `mut` out, and return what changes";
            self.found.get_or_insert_with(|| Error::new(word.span(), why));
        }
        visit_mut::visit_type_reference_mut(self, ty);
    }

    fn visit_type_impl_trait_mut(&mut self, ty: &mut syn::TypeImplTrait) {
        let why = "a method has no generics: write the type, which is a part of its signature";
        self.found.get_or_insert_with(|| Error::new(ty.span(), why));
    }
}

fn check_type(ty: &Type, why_static: &'static str) -> Result<()> {
    let mut visit = Unsendable { why_static, found: None };
    visit.visit_type_mut(&mut ty.clone());
    visit.found.map_or(Ok(()), Err)
}

/// The name of an argument, apart from the names that the generated code uses beside it: a method may call an argument `context`.
fn apart(name: &Ident) -> Ident {
    let mut apart = name.clone();
    apart.set_span(name.span().resolved_at(Span::mixed_site()));
    apart
}

/// The name of an argument that is not the context.
fn named(input: &FnArg) -> Option<Ident> {
    match input {
        FnArg::Typed(typed) if !is_context(&typed.ty) => match &*typed.pat {
            Pat::Ident(pattern) => Some(apart(&pattern.ident)),
            _ => None,
        },
        _ => None,
    }
}

fn check_streams(signature: &syn::Signature, streams: &[StreamArgument], runs: Runs) -> Result<()> {
    if !streams.is_empty() && runs != Runs::Async {
        return Err(Error::new(signature.span(), "a method with a stream waits for items: make it `async`"));
    }
    if [true, false].iter().any(|writes| streams.iter().filter(|each| each.writes == *writes).count() > 1) {
        return Err(Error::new(signature.span(), "a method has at most one `StreamWriter` and one `StreamReader`"));
    }
    Ok(())
}

/// The stream that this type is.
fn stream_of(name: &Ident, ty: &Type) -> Option<StreamArgument> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let writes = last.ident == "StreamWriter";
    let PathArguments::AngleBracketed(list) = &last.arguments else { return None };
    match list.args.first() {
        Some(GenericArgument::Type(item)) if writes || last.ident == "StreamReader" => {
            Some(StreamArgument { name: name.clone(), item: item.clone(), writes })
        }
        _ => None,
    }
}

/// The arguments of a method.
#[derive(Default)]
struct Inputs {
    /// Whether the first one is the context.
    has_context: bool,
    /// Those that travel.
    arguments: Vec<(Ident, Type)>,
    streams: Vec<StreamArgument>,
}

fn inputs(signature: &syn::Signature) -> Result<Inputs> {
    let mut inputs = signature.inputs.iter();
    match inputs.next() {
        Some(FnArg::Receiver(receiver))
            if receiver.reference.is_some() && receiver.mutability.is_none() && receiver.colon_token.is_none() => {}
        other => {
            let why = "a method takes `&self`: several calls may be under way, so state that changes is in a `Cell`, a `RefCell` or a \
                       `Mutex`";
            let span = other.map_or(signature.ident.span(), Spanned::span);
            return Err(Error::new(span, why));
        }
    }
    let mut all = Inputs::default();
    for (at, input) in inputs.enumerate() {
        let FnArg::Typed(typed) = input else { continue };
        if at == 0 && is_context(&typed.ty) {
            all.has_context = true;
            continue;
        }
        if is_context(&typed.ty) {
            return Err(Error::new(typed.ty.span(), "a `&Context` stands first, behind `&self`"));
        }
        let Pat::Ident(pattern) = &*typed.pat else {
            return Err(Error::new(typed.pat.span(), "an argument has a name"));
        };
        let name = apart(&pattern.ident);
        check_type(
            &typed.ty,
            "an argument borrows from the frame, and does not outlive the method: leave `'static` out",
        )?;
        match stream_of(&name, &typed.ty) {
            Some(stream) if has_borrow(&stream.item) => {
                return Err(Error::new(
                    stream.item.span(),
                    "an item outlives its frame, so it cannot borrow: use an owned type",
                ));
            }
            Some(stream) => all.streams.push(stream),
            None => all.arguments.push((name, (*typed.ty).clone())),
        }
    }
    Ok(all)
}

fn is_context(ty: &Type) -> bool {
    let Type::Reference(TypeReference { elem, .. }) = ty else { return false };
    matches!(&**elem, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Context"))
}

/// The type of the value, and that of the error.
fn result(output: &ReturnType) -> Result<(Type, Option<Type>)> {
    let ReturnType::Type(_, ty) = output else { return Ok((syn::parse_quote!(()), None)) };
    let Type::Path(path) = &**ty else { return Ok(((**ty).clone(), None)) };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else {
        return Ok(((**ty).clone(), None));
    };
    let types: Vec<&Type> = match &last.arguments {
        PathArguments::AngleBracketed(list) => list
            .args
            .iter()
            .filter_map(|each| if let GenericArgument::Type(ty) = each { Some(ty) } else { None })
            .collect(),
        _ => vec![],
    };
    match types[..] {
        [value, error] => Ok((value.clone(), Some(error.clone()))),
        _ => Err(Error::new(
            ty.span(),
            "write both types, `Result<Value, Error>`: they are part of the method's signature",
        )),
    }
}

/// Gives all lifetimes of a type one name.
struct WithLifetime(Lifetime, bool);

impl VisitMut for WithLifetime {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        (*lifetime, self.1) = (self.0.clone(), true);
    }

    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        (reference.lifetime, self.1) = (Some(self.0.clone()), true);
        visit_mut::visit_type_reference_mut(self, reference);
    }
}

fn with_lifetime(ty: &Type, name: &str) -> Type {
    let mut ty = ty.clone();
    WithLifetime(Lifetime::new(name, Span::mixed_site()), false).visit_type_mut(&mut ty);
    ty
}

fn has_borrow(ty: &Type) -> bool {
    let mut visit = WithLifetime(Lifetime::new("'static", Span::mixed_site()), false);
    visit.visit_type_mut(&mut ty.clone());
    visit.1
}

/// What the client knows of the service: a constant.
fn info(of: &ItemTrait, methods: &[Method]) -> TokenStream {
    let service = of.ident.to_string();
    let all = methods.iter().map(|method| {
        let name = method.name.unraw().to_string();
        let arguments = method.types().map(|ty| with_lifetime(ty, "'static"));
        let value = with_lifetime(&method.value, "'static");
        let error = method.error.iter().map(|ty| with_lifetime(ty, "'static"));
        let items = method.streams.iter().map(|StreamArgument { item, writes, .. }| {
            let direction = if *writes { 3_u64 } else { 5 };
            quote!(<#item as ::am_rpc::Schema>::SCHEMA.wrapping_mul(#direction))
        });
        let runs = match method.runs {
            Runs::Inline => quote!(Inline),
            Runs::Async => quote!(Async),
            Runs::Blocking => quote!(Blocking),
        };
        let is_idempotent = method.is_idempotent;
        quote!(::am_rpc::MethodInfo {
            id: ::am_rpc::MethodId::new(#service, #name, &[
                <(#(#arguments,)*) as ::am_rpc::Schema>::SCHEMA,
                <#value as ::am_rpc::Schema>::SCHEMA,
                #(<#error as ::am_rpc::Schema>::SCHEMA,)*
                #(#items,)*
            ]),
            name: #name,
            runs: ::am_rpc::Runs::#runs,
            is_idempotent: #is_idempotent,
        })
    });
    quote!(&::am_rpc::ServiceInfo { name: #service, methods: &[#(#all),*] })
}

fn client(of: &ItemTrait, methods: &[Method]) -> TokenStream {
    let (vis, name) = (&of.vis, &of.ident);
    let client = format_ident!("{name}Client");
    let info = info(of, methods);
    let doc = format!("Calls [`{name}`] at a peer.");
    let calls = methods.iter().enumerate().map(|(at, method)| {
        let Method { name: method_name, docs, value, .. } = method;
        let (names, types): (Vec<_>, Vec<_>) = (method.names().collect(), method.types().collect());
        let view = method.view(name);
        let value = if method.borrows { quote!(::am_rpc::View<#view>) } else { quote!(#value) };
        let (error, read) = match (&method.error, method.borrows) {
            (None, false) => (quote!(::core::convert::Infallible), quote!(value)),
            (None, true) => (quote!(::core::convert::Infallible), quote!(view)),
            (Some(error), false) => (quote!(#error), quote!(result)),
            (Some(error), true) => (quote!(#error), quote!(view_result)),
        };
        if !method.streams.is_empty() {
            let (mut ends, mut begin) = (Vec::new(), Vec::new());
            for StreamArgument { item, writes, .. } in &method.streams {
                // The other end of the method's.
                ends.push(if *writes {
                    quote!(::am_rpc::StreamReader<#item>)
                } else {
                    quote!(::am_rpc::StreamWriter<#item>)
                });
                begin.push(if *writes { quote!(streams.reader()) } else { quote!(streams.writer()) });
            }
            return quote! {
                #(#docs)*
                pub fn #method_name(&self, #(#names: #types),*) -> (::am_rpc::Call<#value, #error>, #(#ends),*) {
                    let (call, streams) =
                        self.0.call_with_streams(Self::SERVICE, #at, &(#(#names,)*), ::am_rpc::generated::Reply::#read);
                    (call, #(#begin),*)
                }
            };
        }
        quote! {
            #(#docs)*
            pub fn #method_name(&self, #(#names: #types),*) -> ::am_rpc::Call<#value, #error> {
                self.0.call(Self::SERVICE, #at, &(#(#names,)*), ::am_rpc::generated::Reply::#read)
            }
        }
    });
    let views = methods.iter().filter(|method| method.borrows).map(|method| {
        let (view, of) = (method.view(name), with_lifetime(&method.value, "'a"));
        let doc = format!("What [`{name}::{}`] returns.", method.name);
        quote! {
            #[doc = #doc]
            #[derive(Debug)]
            #vis enum #view {}

            impl ::am_rpc::generated::Borrowed for #view {
                type Of<'a> = #of;
            }
        }
    });
    quote! {
        #[doc = #doc]
        #[derive(Clone, Debug)]
        #vis struct #client(::am_rpc::Peer);

        impl #client {
            /// The service that this client was built with.
            pub const SERVICE: &'static ::am_rpc::ServiceInfo = #info;

            /// A client that calls this peer.
            pub fn new(peer: &::am_rpc::Peer) -> Self {
                Self(::core::clone::Clone::clone(peer))
            }

            /// The peer that it calls.
            pub fn peer(&self) -> &::am_rpc::Peer {
                &self.0
            }

            #(#calls)*
        }

        #(#views)*
    }
}

/// The variable of an argument in the dispatch. A constant of the argument's name would be a pattern there.
fn variable(name: &Ident) -> Ident {
    format_ident!("argument_{}", name.unraw(), span = name.span())
}

/// The arm of the dispatch that runs this method.
fn arm(name: &Ident, at: usize, method: &Method) -> TokenStream {
    let (names, types): (Vec<_>, Vec<_>) = (method.names().map(variable).collect(), method.types().collect());
    let method_name = &method.name;
    let run = match method.runs {
        Runs::Inline => {
            let context = method.context(&quote!(&call.context()));
            let call = method.wrapped(&quote!(#name::#method_name(&*self.service, #context #(#names),*)));
            return quote!(#at => call.inline(|call| {
                let (#(#names,)*) = call.decode::<(#(#types,)*)>()?;
                ::core::result::Result::Ok(#call)
            }),);
        }
        Runs::Async => {
            let (context, all) = (method.context(&quote!(&context)), method.all.iter().map(variable));
            let call = method.wrapped(&quote!(#name::#method_name(&*service, #context #(#all),*).await));
            if !method.streams.is_empty() {
                let ends = method.streams.iter().map(|StreamArgument { name, item, writes }| {
                    let (name, begin) = (variable(name), if *writes { quote!(writer) } else { quote!(reader) });
                    quote!(let #name = streams.#begin::<#item>();)
                });
                return quote!(#at => call.stream(&self.pools[#at], |arguments, context, streams| {
                    let service = ::core::clone::Clone::clone(&self.service);
                    #(#ends)*
                    async move {
                        let _ = &context;
                        let (#(#names,)*) = arguments.decode::<(#(#types,)*)>()?;
                        ::core::result::Result::Ok(#call)
                    }
                }),);
            }
            quote!(async move {
                let _ = &context;
                let (#(#names,)*) = arguments.decode::<(#(#types,)*)>()?;
                ::core::result::Result::Ok(#call)
            })
        }
        Runs::Blocking => {
            let call = method.wrapped(&quote!(#name::#method_name(&*service, #(#names),*)));
            quote!(::am_rpc::generated::unblock(move || {
                let (#(#names,)*) = arguments.decode::<(#(#types,)*)>()?;
                ::core::result::Result::Ok(#call)
            }))
        }
    };
    quote!(#at => call.run(&self.pools[#at], |arguments, context| {
        let _ = &context;
        let service = ::core::clone::Clone::clone(&self.service);
        #run
    }),)
}

fn server(of: &ItemTrait, methods: &[Method]) -> TokenStream {
    let (vis, name) = (&of.vis, &of.ident);
    let (client, server) = (format_ident!("{name}Client"), format_ident!("{name}Server"));
    let doc = format!("Serves an implementation of [`{name}`].");
    let has_threads = methods.iter().any(|method| method.runs == Runs::Blocking);
    let threads = has_threads.then(|| quote!(+ ::core::marker::Send));
    let pointer = if has_threads { quote!(::std::sync::Arc) } else { quote!(::std::rc::Rc) };
    let count = methods.len();
    let arms = methods.iter().enumerate().map(|(at, method)| arm(name, at, method));
    quote! {
        #[doc = #doc]
        #vis struct #server<P> {
            service: P,
            pools: [::am_rpc::generated::TaskPool; #count],
        }

        impl<T> #server<#pointer<T>> {
            /// A server of this implementation.
            pub fn new(service: T) -> Self {
                Self { service: #pointer::new(service), pools: ::core::array::from_fn(|_| ::core::default::Default::default()) }
            }
        }

        impl<P: ::core::ops::Deref<Target: #name>> #server<P> {
            /// A server of an implementation that the program uses, too: behind an `Rc`, or an `Arc` for other threads.
            pub fn shared(service: P) -> Self {
                Self { service, pools: ::core::array::from_fn(|_| ::core::default::Default::default()) }
            }
        }

        impl<P> ::am_rpc::Service for #server<P>
        where
            P: ::core::ops::Deref<Target: #name> + ::core::clone::Clone #threads + 'static,
        {
            fn info(&self) -> &'static ::am_rpc::ServiceInfo {
                #client::SERVICE
            }

            fn handle(&self, method: usize, call: ::am_rpc::generated::Incoming<'_>) {
                match method {
                    #(#arms)*
                    _ => call.malformed(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Error {
        let input = syn::parse_str(text).expect("a trait");
        implement(input).expect_err("it is no service")
    }

    fn error(text: &str) -> String {
        refused(text).to_string()
    }

    /// The error stands where its cause does.
    #[test]
    fn what_is_no_service_says_where() {
        for (text, place, why) in [
            ("trait S { fn f(&self, a: &'static str); }", "'static", "an argument borrows from the frame"),
            ("trait S { fn f(&self, a: Option<Cow<'static, str>>); }", "'static", "an argument borrows from the frame"),
            (
                "trait S { async fn f(&self, a: u8, b: &'static [u8]); }",
                "'static",
                "an argument borrows from the frame",
            ),
            ("trait S { fn f(&self, a: &mut u8); }", "mut", "an argument is a copy or a view"),
            ("trait S { unsafe fn f(&self); }", "unsafe", "a method is called by other programs"),
            ("trait S { extern \"C\" fn f(&self); }", "extern \"C\"", "a method is called by a message"),
            ("trait S { fn f(&self) where Self: Sized; }", "where Self: Sized", "a method has no generics"),
            ("trait S { fn f(&self, a: impl Into<u8>); }", "impl Into<u8>", "a method has no generics"),
            ("trait S { fn f(&self) -> &str; fn f_(&self) -> &str; }", "f_", "the result of `f_` would have the type"),
            ("trait S { fn g_f(&self) -> &str; fn g__f(&self) -> &str; }", "g__f", "the result of `g__f` would have"),
            ("trait S { async fn f(&self, a: StreamReader<&str>); }", "&str", "an item outlives its frame"),
        ] {
            let error = refused(text);
            let (from, to) = (error.span().start().column, error.span().end().column);
            assert_eq!((&text[from..to], error.to_string().starts_with(why)), (place, true), "{text}: {error}");
        }
        for text in ["trait S { fn f(&self) -> &str; fn f_(&self) -> u8; }", "trait S { fn f(&self) -> &'static str; }"]
        {
            implement(syn::parse_str(text).expect("a trait")).expect("a service");
        }
    }

    #[test]
    fn what_is_no_service_says_why() {
        for (text, why) in [
            ("trait S<T> {}", "a service has no generics"),
            ("trait S { const C: u8; }", "a service has methods only"),
            ("trait S { fn f<T>(&self, of: T); }", "a method has no generics"),
            ("trait S { fn f(&mut self); }", "a method takes `&self`"),
            ("trait S { fn f(); }", "a method takes `&self`"),
            ("trait S { fn f(&self) {} }", "a method has no body here"),
            ("trait S { fn f(&self, (a, b): (u8, u8)); }", "an argument has a name"),
            ("trait S { fn f(&self) -> io::Result<u8>; }", "write both types"),
            ("trait S { async fn f(&self) -> &str; }", "the result outlives the call's arguments"),
            ("trait S { #[blocking] async fn f(&self); }", "a blocking method has a thread"),
            ("trait S { #[blocking] fn f(&self, of: &Context); }", "a blocking method runs on another"),
            ("trait S { #[idempotent] async fn f(&self, to: StreamWriter<u8>); }", "a call with a stream is not sent"),
            ("trait S { fn f(&self, at: u8, of: &Context); }", "a `&Context` stands first"),
            ("trait S { #[cfg(test)] fn f(&self); }", "a service has all its methods"),
            ("trait S { fn SERVICE(&self); }", "the client has a function of this name"),
            ("trait S { fn new(&self); }", "the client has a function of this name"),
            ("trait S { fn f(&self, to: StreamWriter<u8>); }", "a method with a stream waits"),
            ("trait S { async fn f(&self, a: StreamReader<u8>, b: StreamReader<u8>); }", "a method has at most one"),
        ] {
            let error = error(text);
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
