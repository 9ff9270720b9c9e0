//! An operation of an object: what is written of it, and what is wrong.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Error, Expr, FnArg, Ident, ImplItemFn, Lifetime, Pat, Result, ReturnType, Stmt, Token, Type,
    TypeImplTrait, TypeReference, Visibility,
};

/// A function with `#[read]` or `#[write]`.
pub(crate) struct Operation {
    pub(crate) name: Ident,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) writes: bool,
    /// What has to hold before it runs.
    pub(crate) guard: Option<Expr>,
    pub(crate) arguments: Vec<(Ident, Type)>,
    pub(crate) value: TokenStream,
}

/// One of several statements, of which the first runs whose guard holds.
struct Alternative {
    guard: Expr,
    body: Expr,
}

impl Parse for Alternative {
    fn parse(input: ParseStream<'_>) -> Result<Alternative> {
        let guard = input.parse()?;
        input.parse::<Token![=>]>()?;
        Ok(Alternative { guard, body: input.parse()? })
    }
}

impl Operation {
    /// Reads a function, and leaves what the type keeps of it. `None`: it is no operation.
    pub(crate) fn of(object: &Ident, function: &mut ImplItemFn) -> Result<Option<Operation>> {
        let reads = take_attribute(&mut function.attrs, "read")
            .map(|read| read.meta.require_path_only().cloned())
            .transpose()?;
        let writes = take_attribute(&mut function.attrs, "write")
            .map(|write| write.meta.require_path_only().cloned())
            .transpose()?;
        let guard = take_attribute(&mut function.attrs, "guard");
        let writes = match (reads, writes, &guard) {
            (Some(_), Some(write), _) => {
                return Err(Error::new(write.span(), "an operation is `#[read]` or `#[write]`"));
            }
            (None, None, Some(guard)) => {
                return Err(Error::new(guard.span(), "only an operation has a guard: add `#[write]`"));
            }
            (None, None, None) => return Ok(None),
            (_, writes, _) => writes.is_some(),
        };
        check_signature(&function.sig, writes)?;
        let mut guard = guard.map(|guard| guard.parse_args::<Expr>()).transpose()?;
        if let Some(alternatives) = alternatives(&function.block)? {
            if let Some(guard) = guard {
                return Err(Error::new(guard.span(), "`when!` has the guards: leave `#[guard]` out"));
            }
            guard = Some(choose(function, &alternatives));
        }
        if let (Some(guard), false) = (&guard, writes) {
            return Err(Error::new(
                guard.span(),
                "a read does not wait: write `#[write]`, or read a value that says that it is early",
            ));
        }
        let signature = &function.sig;
        let value = match &signature.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, ty) => {
                check_type(ty, "a result travels, and outlives the operation: return a value that owns what it has")?;
                named(ty.to_token_stream(), object)
            }
        };
        let docs = function.attrs.iter().filter(|each| each.path().is_ident("doc")).cloned().collect();
        let (name, visibility) = (signature.ident.clone(), function.vis.clone());
        let arguments = arguments(object, signature)?;
        // An argument that the guard alone looks at is used.
        let guard_tokens = guard.as_ref().map(ToTokens::to_token_stream).unwrap_or_default();
        let used = arguments.iter().map(|(name, _)| name).filter(|name| mentions(guard_tokens.clone(), name));
        function.block.stmts.splice(0..0, used.map(|name| syn::parse_quote!(let _ = &#name;)));
        Ok(Some(Operation { name, docs, visibility, writes, guard, arguments, value }))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Ident> {
        self.arguments.iter().map(|(name, _)| name)
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = &Type> {
        self.arguments.iter().map(|(_, ty)| ty)
    }

    /// Whether the guard depends on an argument.
    pub(crate) fn guard_has_arguments(&self) -> bool {
        let guard = self.guard.as_ref().map(ToTokens::to_token_stream).unwrap_or_default();
        self.names().any(|name| mentions(guard.clone(), name))
    }
}

/// The attribute, if it is there. It is taken out.
fn take_attribute(attributes: &mut Vec<Attribute>, name: &str) -> Option<Attribute> {
    let at = attributes.iter().position(|each| each.path().is_ident(name))?;
    Some(attributes.remove(at))
}

fn check_signature(signature: &syn::Signature, writes: bool) -> Result<()> {
    let refuse = |span: Span, why: &str| Err(Error::new(span, why));
    if let Some(word) = &signature.asyncness {
        return refuse(word.span(), "an operation is indivisible, and cannot wait: leave `async` out");
    }
    if let Some(word) = &signature.unsafety {
        return refuse(
            word.span(),
            "an operation is called by other programs, which can promise nothing: leave `unsafe` out",
        );
    }
    if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
        return refuse(signature.generics.span(), "an operation has no generics: its signature is one number");
    }
    let Some(FnArg::Receiver(receiver)) = signature.inputs.first() else {
        return refuse(signature.inputs.span(), "an operation takes `&self` or `&mut self`");
    };
    if receiver.reference.is_none() || receiver.colon_token.is_some() {
        return refuse(receiver.span(), "an operation takes `&self` or `&mut self`");
    }
    match (receiver.mutability.is_some(), writes) {
        (true, false) => refuse(receiver.span(), "a read changes nothing: take `&self`, or write `#[write]`"),
        _ => Ok(()),
    }
}

fn arguments(object: &Ident, signature: &syn::Signature) -> Result<Vec<(Ident, Type)>> {
    let typed = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    typed
        .map(|typed| match &*typed.pat {
            Pat::Ident(pattern) if pattern.subpat.is_none() => {
                check_argument(&typed.ty)?;
                Ok((pattern.ident.clone(), syn::parse2(named(typed.ty.to_token_stream(), object))?))
            }
            other => Err(Error::new(other.span(), "an argument has a name")),
        })
        .collect()
}

/// What a type of an argument or a result has.
#[derive(Default)]
struct Parts {
    reference: Option<TypeReference>,
    has_static: bool,
    generic: Option<TypeImplTrait>,
}

impl<'ast> Visit<'ast> for Parts {
    fn visit_type_reference(&mut self, ty: &'ast TypeReference) {
        self.reference.get_or_insert(ty.clone());
        visit::visit_type_reference(self, ty);
    }

    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        self.has_static |= lifetime.ident == "static";
    }

    fn visit_type_impl_trait(&mut self, ty: &'ast TypeImplTrait) {
        self.generic.get_or_insert(ty.clone());
    }
}

impl Parts {
    fn of(ty: &Type) -> Result<Parts> {
        let mut parts = Parts::default();
        parts.visit_type(ty);
        match &parts.generic {
            Some(generic) => {
                Err(Error::new(generic.span(), "an operation has no generics: its signature is one number"))
            }
            None => Ok(parts),
        }
    }
}

fn check_type(ty: &Type, why: &str) -> Result<()> {
    Parts::of(ty)?.reference.map_or(Ok(()), |reference| Err(Error::new(reference.span(), why)))
}

fn check_argument(ty: &Type) -> Result<()> {
    let parts = Parts::of(ty)?;
    match parts.reference {
        Some(reference) if reference.mutability.is_some() => {
            Err(Error::new(reference.span(), "an argument is a copy of what the caller has: return what changes"))
        }
        _ if parts.has_static => {
            Err(Error::new(ty.span(), "an argument borrows from the message that brought it: leave `'static` out"))
        }
        _ => Ok(()),
    }
}

/// The same tokens, with the object's name for `Self`: callers have the type, too.
fn named(tokens: TokenStream, object: &Ident) -> TokenStream {
    let named = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(ident) if ident == "Self" => TokenTree::Ident(object.clone()),
        TokenTree::Group(group) => TokenTree::Group(Group::new(group.delimiter(), self::named(group.stream(), object))),
        other => other,
    });
    named.collect()
}

/// The arms of a body that is one `when! { .. }`.
fn alternatives(block: &Block) -> Result<Option<Vec<Alternative>>> {
    let arms = match &block.stmts[..] {
        [Stmt::Macro(statement)] if statement.mac.path.is_ident("when") => &statement.mac,
        [Stmt::Expr(Expr::Macro(expression), _)] if expression.mac.path.is_ident("when") => &expression.mac,
        _ => return Ok(None),
    };
    let arms = arms.parse_body_with(Punctuated::<Alternative, Token![,]>::parse_terminated)?;
    if arms.is_empty() {
        return Err(Error::new(block.span(), "`when!` has at least one `guard => statement`"));
    }
    Ok(Some(arms.into_iter().collect()))
}

/// Writes the body that runs the first alternative whose guard holds. Returns the guard of the whole.
fn choose(function: &mut ImplItemFn, alternatives: &[Alternative]) -> Expr {
    let guards: Vec<&Expr> = alternatives.iter().map(|alternative| &alternative.guard).collect();
    let bodies = alternatives.iter().map(|alternative| &alternative.body);
    function.block = syn::parse_quote!({
        #(if #guards { return #bodies; })*
        ::core::unreachable!("an operation runs when one of its guards holds")
    });
    syn::parse_quote!(#((#guards))||*)
}

fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        // A text may name it, as in `format!("{name}")`.
        TokenTree::Literal(literal) => literal.to_string().contains(&name.to_string()),
        TokenTree::Punct(_) => false,
    })
}
