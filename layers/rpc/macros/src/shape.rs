//! What a derive looks at: the variants of a type and their fields. A struct is one variant without a tag.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Fields, GenericParam, Generics, Ident, Index, Lifetime, Member, Result,
    Type, TypePath, TypeReference,
};

/// A tag is one byte.
const MOST_VARIANTS: usize = 256;

/// A type that can be written and read.
pub(crate) struct Shape {
    pub name: Ident,
    pub generics: Generics,
    pub is_enum: bool,
    /// Fields in packed memory cannot be referred to, so they are copied.
    pub is_packed: bool,
    pub variants: Vec<Variant>,
}

/// A variant, or a struct.
pub(crate) struct Variant {
    pub name: Ident,
    /// `Self` or `Self::Name`.
    pub path: TokenStream,
    pub fields: Vec<Field>,
}

/// A field.
pub(crate) struct Field {
    /// Its name or position.
    pub member: Member,
    /// The variable that it is bound to.
    pub variable: Ident,
    pub ty: Type,
    /// Whether its layout is left out, because it leads back to this type by way of others.
    pub is_recursive: bool,
}

impl Field {
    /// The name that the layout has.
    pub(crate) fn name(&self) -> String {
        match &self.member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(at) => at.index.to_string(),
        }
    }
}

impl Shape {
    pub(crate) fn of(input: DeriveInput) -> Result<Shape> {
        let is_packed = is_packed(&input.attrs)?;
        let (is_enum, variants) = match input.data {
            Data::Struct(data) => (false, vec![variant(input.ident.clone(), quote!(Self), data.fields)?]),
            Data::Enum(data) if data.variants.len() > MOST_VARIANTS => {
                let why = format!("an enum has at most {MOST_VARIANTS} variants in a message: its tag is one byte");
                return Err(Error::new(input.ident.span(), why));
            }
            Data::Enum(data) => {
                let variants = data.variants.into_iter().map(|each| {
                    let name = &each.ident;
                    let path = quote!(Self::#name);
                    variant(each.ident, path, each.fields)
                });
                (true, variants.collect::<Result<_>>()?)
            }
            Data::Union(data) => {
                let why = "a union cannot be sent: nothing says which of its fields it holds; use an enum";
                return Err(Error::new(data.union_token.span, why));
            }
        };
        let mut shape = Shape { name: input.ident, generics: input.generics, is_enum, is_packed, variants };
        shape.check_types()?;
        Ok(shape)
    }

    /// What the missing implementation would say less clearly, once for each trait.
    fn check_types(&mut self) -> Result<()> {
        let mut found = Unsendable(None);
        self.variants.iter_mut().flat_map(|each| &mut each.fields).for_each(|each| found.visit_type_mut(&mut each.ty));
        found.0.map_or(Ok(()), Err)
    }

    /// The names of its lifetimes.
    pub(crate) fn lifetimes(&self) -> Vec<Ident> {
        self.generics.lifetimes().map(|each| each.lifetime.ident.clone()).collect()
    }

    /// Its generics where each type implements a trait, too.
    pub(crate) fn bounded(&self, bound: &TokenStream) -> Generics {
        bounded(self.generics.clone(), bound)
    }
}

/// The generics, with this bound on each type.
pub(crate) fn bounded(mut generics: Generics, bound: &TokenStream) -> Generics {
    let types: Vec<Ident> = generics.type_params().map(|each| each.ident.clone()).collect();
    let clause = generics.make_where_clause();
    clause.predicates.extend(types.iter().map(|each| -> syn::WherePredicate { syn::parse_quote!(#each: #bound) }));
    generics
}

fn variant(name: Ident, path: TokenStream, fields: Fields) -> Result<Variant> {
    let fields = fields.into_iter().enumerate().map(|(at, field)| {
        let is_recursive = is_recursive(&field.attrs)?;
        let member = field.ident.map_or_else(|| Member::Unnamed(Index::from(at)), Member::Named);
        let variable = Ident::new(&format!("field_{at}"), Span::mixed_site());
        Ok(Field { member, variable, ty: field.ty, is_recursive })
    });
    Ok(Variant { name, path, fields: fields.collect::<Result<_>>()? })
}

/// Whether the field has `#[wire(recursive)]`. There is no other attribute.
fn is_recursive(attributes: &[Attribute]) -> Result<bool> {
    let mut is_recursive = false;
    for attribute in attributes.iter().filter(|each| each.path().is_ident("wire")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("recursive") {
                return Err(meta.error("the only attribute is `#[wire(recursive)]`"));
            }
            is_recursive = true;
            Ok(())
        })?;
    }
    Ok(is_recursive)
}

fn is_packed(attributes: &[Attribute]) -> Result<bool> {
    let mut is_packed = false;
    for attribute in attributes {
        if attribute.path().is_ident("wire") {
            return Err(Error::new_spanned(attribute, "`#[wire(recursive)]` stands at a field"));
        }
        if attribute.path().is_ident("repr") {
            attribute.parse_nested_meta(|meta| {
                is_packed |= meta.path.is_ident("packed");
                if meta.input.peek(syn::token::Paren) {
                    let size;
                    syn::parenthesized!(size in meta.input);
                    size.parse::<TokenStream>()?;
                }
                Ok(())
            })?;
        }
    }
    Ok(is_packed)
}

/// The first type that cannot be sent.
struct Unsendable(Option<Error>);

impl VisitMut for Unsendable {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        if let Some(lifetime) = reference.lifetime.as_ref().filter(|lifetime| lifetime.ident == "static") {
            let why = "a field borrows from the frame: give the type a lifetime, and write it instead of `'static`";
            self.0.get_or_insert_with(|| Error::new(lifetime.span(), why));
        }
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_type_path_mut(&mut self, path: &mut TypePath) {
        if path.path.is_ident("usize") || path.path.is_ident("isize") {
            let why = "machines differ in the size of `usize`: use `u64`, or `i64` for `isize`";
            self.0.get_or_insert_with(|| Error::new(path.path.segments[0].ident.span(), why));
        }
        visit_mut::visit_type_path_mut(self, path);
    }

    /// An array may have as many elements as a `usize` has bytes.
    fn visit_expr_mut(&mut self, _: &mut Expr) {}
}

/// Replaces all lifetimes of a type by the frame's.
pub(crate) struct FromFrame<'a> {
    pub names: &'a [Ident],
    pub frame: &'a Lifetime,
}

impl VisitMut for FromFrame<'_> {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if self.names.contains(&lifetime.ident) {
            *lifetime = self.frame.clone();
        }
    }
}

impl FromFrame<'_> {
    /// The generics of an implementation: the frame's lifetime, then the type's other parameters.
    pub(crate) fn generics(&mut self, generics: &Generics) -> Generics {
        let mut generics = generics.clone();
        let frame = self.frame;
        let others = generics.params.into_iter().filter(|each| !matches!(each, GenericParam::Lifetime(_)));
        generics.params = std::iter::once(syn::parse_quote!(#frame)).chain(others).collect();
        generics.params.iter_mut().skip(1).for_each(|each| self.visit_generic_param_mut(each));
        generics.where_clause.iter_mut().for_each(|each| self.visit_where_clause_mut(each));
        generics
    }
}

/// Replaces a type within itself: its layout would not end.
pub(crate) struct WithoutItself<'a>(pub &'a Ident);

impl VisitMut for WithoutItself<'_> {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        match ty {
            Type::Path(path) if path.qself.is_none() && self.is_itself(&path.path) => {
                *ty = syn::parse_quote!(::am_rpc::codec::Recursion);
            }
            _ => visit_mut::visit_type_mut(self, ty),
        }
    }
}

impl WithoutItself<'_> {
    fn is_itself(&self, path: &syn::Path) -> bool {
        let mut names = path.segments.iter().map(|segment| &segment.ident);
        matches!((names.next(), names.next()), (Some(name), None) if name == self.0 || name == "Self")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(input: DeriveInput) -> String {
        Shape::of(input).err().expect("it cannot be sent").to_string()
    }

    #[test]
    fn what_cannot_be_sent_says_why() {
        let union = syn::parse_quote!(union Either { number: u32, float: f32 });
        assert!(error(union).starts_with("a union cannot be sent"));
        let variants = (0..=MOST_VARIANTS).map(|at| quote::format_ident!("V{at}"));
        assert!(error(syn::parse_quote!(enum Many { #(#variants),* })).starts_with("an enum has at most 256 variants"));
        let borrow = syn::parse_quote!(
            struct Greeting {
                name: &'static str,
            }
        );
        assert!(error(borrow).starts_with("a field borrows from the frame"));
        let attribute = syn::parse_quote!(
            struct Greeting {
                #[wire(skip)]
                name: String,
            }
        );
        assert_eq!(error(attribute), "the only attribute is `#[wire(recursive)]`");
        let size = syn::parse_quote!(
            struct Page {
                number: Vec<usize>,
            }
        );
        assert!(error(size).starts_with("machines differ in the size of `usize`"));
    }
}
