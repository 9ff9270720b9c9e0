//! The three implementations. Their code names everything from the root, `::am_rpc::codec`, because its user may have imported nothing.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{GenericParam, Ident, Lifetime};

use crate::shape::{Field, FromFrame, Shape, Variant, WithoutItself, bounded};

pub(crate) fn implement(shape: &Shape) -> TokenStream {
    [encode(shape), decode(shape), schema(shape)].into_iter().collect()
}

fn encode(shape: &Shape) -> TokenStream {
    let name = &shape.name;
    let generics = shape.bounded(&quote!(::am_rpc::codec::Encode));
    let (params, arguments, clause) = generics.split_for_impl();
    let size = by_variant(shape, |tag, fields| {
        let tag = tag.map_or(0usize, |_| 1);
        let sizes = fields.iter().map(|(field, value)| call(field, "Encode", "size", &[value]));
        quote!(#tag #(+ #sizes)*)
    });
    let encode = by_variant(shape, |tag, fields| {
        let tag = tag.map(|tag| quote!(to.array([#tag]);));
        let writes = fields.iter().map(|(field, value)| call(field, "Encode", "encode", &[value, &quote!(to)]));
        quote!({ #tag #(#writes;)* })
    });
    let fields: Vec<&Field> = shape.variants.iter().flat_map(|variant| &variant.fields).collect();
    let is_sure = if fields.iter().any(|field| field.is_recursive || contains_itself(field, name)) {
        quote!(false)
    } else {
        let types = fields.iter().map(|field| &field.ty);
        quote!(true #(&& <#types as ::am_rpc::codec::Encode>::IS_SURE)*)
    };
    quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #params ::am_rpc::codec::Encode for #name #arguments #clause {
            const IS_SURE: bool = #is_sure;

            #[inline]
            fn size(&self) -> usize {
                #size
            }

            #[inline]
            fn encode(&self, to: &mut ::am_rpc::codec::Writer<'_>) {
                #encode
            }
        }
    }
}

/// Whether the shape of this name is a part of the field's type.
fn contains_itself(field: &Field, shape: &Ident) -> bool {
    let mut without = field.ty.clone();
    WithoutItself(shape).visit_type_mut(&mut without);
    without.to_token_stream().to_string() != field.ty.to_token_stream().to_string()
}

/// A call of a trait's function for a field. The compiler reports at the field's type that it does not implement the trait.
fn call(field: &Field, of: &str, function: &str, arguments: &[&TokenStream]) -> TokenStream {
    let [of, function] = [of, function].map(|name| Ident::new(name, field.ty.span()));
    quote_spanned!(field.ty.span()=> ::am_rpc::codec::#of::#function(#(#arguments),*))
}

/// A `match` with an arm for each variant, made from its tag, and its fields with references to them.
fn by_variant(shape: &Shape, arm: impl Fn(Option<u8>, &[(&Field, TokenStream)]) -> TokenStream) -> TokenStream {
    if shape.variants.is_empty() {
        return quote!(match *self {});
    }
    let arms = shape.variants.iter().zip(0..=u8::MAX).map(|(variant, tag)| {
        let Variant { path, fields, .. } = variant;
        let bindings = fields.iter().map(|Field { member, variable, .. }| quote!(#member: #variable));
        let packed = shape.is_packed.then(|| quote!(&));
        let values = fields.iter().map(|field| {
            let variable = &field.variable;
            (field, quote!(#packed #variable))
        });
        let body = arm(shape.is_enum.then_some(tag), &values.collect::<Vec<_>>());
        quote!(#path { #(#bindings),* } => #body,)
    });
    let packed = shape.is_packed.then(|| quote!(*));
    quote!(match #packed self { #(#arms)* })
}

fn decode(shape: &Shape) -> TokenStream {
    let name = &shape.name;
    let frame = Lifetime::new("'frame", Span::mixed_site());
    let names = shape.lifetimes();
    let mut from_frame = FromFrame { names: &names, frame: &frame };
    let generics = from_frame.generics(&shape.generics);
    let generics = bounded(generics, &quote!(::am_rpc::codec::Decode<#frame>));
    let (params, _, clause) = generics.split_for_impl();
    let arguments = shape.generics.params.iter().map(|param| match param {
        GenericParam::Lifetime(_) => frame.to_token_stream(),
        GenericParam::Type(param) => param.ident.to_token_stream(),
        GenericParam::Const(param) => param.ident.to_token_stream(),
    });
    let values = shape.variants.iter().map(|Variant { path, fields, .. }| {
        let fields = fields.iter().map(|field| {
            let (member, read) = (&field.member, call(field, "Decode", "decode", &[&quote!(from)]));
            quote!(#member: #read?)
        });
        quote!(::core::result::Result::Ok(#path { #(#fields),* }))
    });
    let (least, body) = if shape.is_enum {
        let (tags, of) = (0..=u8::MAX, name.to_string());
        let body = quote! {
            match from.tag()? {
                #(#tags => #values,)*
                #[allow(unreachable_patterns)]
                tag => ::core::result::Result::Err(::am_rpc::codec::DecodeError::Variant { of: #of, tag }),
            }
        };
        (quote!(1), body)
    } else {
        let mut types: Vec<_> = shape.variants[0].fields.iter().map(|field| field.ty.clone()).collect();
        types.iter_mut().for_each(|each| from_frame.visit_type_mut(each));
        (quote!(0 #(+ <#types as ::am_rpc::codec::Decode<#frame>>::MIN_SIZE)*), quote!(#(#values)*))
    };
    quote! {
        #[automatically_derived]
        impl #params ::am_rpc::codec::Decode<#frame> for #name <#(#arguments),*> #clause {
            const MIN_SIZE: usize = #least;

            #[inline]
            #[allow(unused_variables)]
            fn decode(
                from: &mut ::am_rpc::codec::Reader<#frame>,
            ) -> ::core::result::Result<Self, ::am_rpc::codec::DecodeError> {
                #body
            }
        }
    }
}

fn schema(shape: &Shape) -> TokenStream {
    let name = &shape.name;
    let generics = shape.bounded(&quote!(::am_rpc::codec::Schema));
    let (params, arguments, clause) = generics.split_for_impl();
    let kind = if shape.is_enum { "enum" } else { "struct" };
    let variants = shape.variants.iter().map(|variant| {
        let start = shape.is_enum.then(|| syn::ext::IdentExt::unraw(&variant.name).to_string());
        let start = start.map(|name| quote!(.variant(#name)));
        let fields = variant.fields.iter().map(|field| schema_of(field, name));
        quote!(#start #(#fields)*)
    });
    quote! {
        #[automatically_derived]
        impl #params ::am_rpc::codec::Schema for #name #arguments #clause {
            const SCHEMA: u64 = ::am_rpc::codec::Layout::new(#kind)#(#variants)*.finish();
        }
    }
}

fn schema_of(field: &Field, shape: &syn::Ident) -> TokenStream {
    let name = field.name();
    let mut ty = field.ty.clone();
    if field.is_recursive {
        let text = ty.to_token_stream().to_string();
        return quote!(.field(#name, ::am_rpc::codec::Layout::new(#text).finish()));
    }
    WithoutItself(shape).visit_type_mut(&mut ty);
    quote!(.field(#name, <#ty as ::am_rpc::codec::Schema>::SCHEMA))
}
