//! `#[object]`: the operations of a type, and the traits by which they are called.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Error, Ident, ImplItem, ItemImpl, Result, Type, Visibility};

use crate::operation::Operation;

/// Writes the type's functions, its `Object`, and the traits of its callers.
pub(crate) fn implement(mut input: ItemImpl) -> Result<TokenStream> {
    if let Some((_, path, _)) = &input.trait_ {
        return Err(Error::new(
            path.span(),
            "an object has operations of its own: `impl Queue`, not `impl Trait for Queue`",
        ));
    }
    if !input.generics.params.is_empty() {
        let why = "an object has no generics: its name in a space would not say which types are meant";
        return Err(Error::new(input.generics.span(), why));
    }
    let name = type_name(&input.self_ty)?;
    let mut operations = vec![];
    for item in &mut input.items {
        if let ImplItem::Fn(function) = item {
            operations.extend(Operation::of(&name, function)?);
        }
    }
    let (writes, reads): (Vec<Operation>, Vec<Operation>) =
        operations.into_iter().partition(|operation| operation.writes);
    if writes.is_empty() {
        return Err(Error::new(
            name.span(),
            "an object that nothing changes is a constant: mark an operation with `#[write]`",
        ));
    }
    let object = object(&name, &reads, &writes);
    let (reads, writes) = (read_trait(&name, &reads), write_trait(&name, &writes));
    Ok(quote!(#input #object #reads #writes))
}

fn type_name(ty: &Type) -> Result<Ident> {
    match ty {
        Type::Path(path) if path.qself.is_none() => match path.path.get_ident() {
            Some(name) => Ok(name.clone()),
            None => Err(Error::new(ty.span(), "an object is a type of this module, named without a path")),
        },
        other => Err(Error::new(other.span(), "an object is a type of this module, named without a path")),
    }
}

/// What is known of an operation.
fn info(operation: &Operation) -> TokenStream {
    let (name, types, value) = (operation.name.to_string(), operation.types(), &operation.value);
    let (has_guard, has_arguments) = (operation.guard.is_some(), operation.guard_has_arguments());
    quote!(::am_objects::Operation {
        name: #name,
        has_guard: #has_guard,
        guard_has_arguments: #has_arguments,
        schema: <((#(#types,)*), #value) as ::am_objects::codec::Schema>::SCHEMA,
    })
}

fn object(name: &Ident, reads: &[Operation], writes: &[Operation]) -> TokenStream {
    let text = name.to_string();
    let (read_infos, infos) = (reads.iter().map(info), writes.iter().map(info));
    let looks = reads.iter().enumerate().map(|(at, operation)| {
        let (function, names, pattern) = (&operation.name, operation.names(), pattern(operation));
        quote!(#at => {
            #pattern
            let its_result = self.#function(#(#names),*);
            ::am_objects::result_bytes(&its_result)
        })
    });
    let guards = writes.iter().enumerate().filter_map(|(at, operation)| {
        let (guard, pattern) = (operation.guard.as_ref()?, pattern(operation));
        Some(quote!(#at => {
            #[allow(unused_variables)]
            #pattern
            ::core::result::Result::Ok(#guard)
        }))
    });
    let runs = writes.iter().enumerate().map(|(at, operation)| {
        let (function, names, pattern) = (&operation.name, operation.names(), pattern(operation));
        quote!(#at => {
            #pattern
            let its_result = self.#function(#(#names),*);
            if wants_its_result { ::am_objects::result_bytes(&its_result).map(::core::option::Option::Some) }
            else { ::core::result::Result::Ok(::core::option::Option::None) }
        })
    });
    quote! {
        impl ::am_objects::Object for #name {
            const NAME: &'static str = #text;
            const READS: &'static [::am_objects::Operation] = &[#(#read_infos),*];
            const OPERATIONS: &'static [::am_objects::Operation] = &[#(#infos),*];

            #[allow(clippy::let_unit_value, clippy::unit_arg, unused_variables)]
            fn read(
                &self,
                operation: usize,
                arguments: &[u8],
            ) -> ::core::result::Result<::std::vec::Vec<u8>, ::am_objects::Malformed> {
                match operation {
                    #(#looks)*
                    _ => ::core::result::Result::Err(::am_objects::Malformed),
                }
            }

            fn may_run(&self, operation: usize, arguments: &[u8]) -> ::core::result::Result<bool, ::am_objects::Malformed> {
                match operation {
                    #(#guards)*
                    _ => ::core::result::Result::Ok(true),
                }
            }

            #[allow(clippy::let_unit_value, clippy::unit_arg)]
            fn run(
                &mut self,
                operation: usize,
                arguments: &[u8],
                wants_its_result: bool,
            ) -> ::core::result::Result<::core::option::Option<::std::vec::Vec<u8>>, ::am_objects::Malformed> {
                match operation {
                    #(#runs)*
                    _ => ::core::result::Result::Err(::am_objects::Malformed),
                }
            }
        }
    }
}

/// The statement that reads the arguments.
fn pattern(operation: &Operation) -> TokenStream {
    let (names, types) = (operation.names(), operation.types());
    quote!(let (#(#names,)*): (#(#types,)*) = ::am_objects::codec::from_bytes(arguments)?;)
}

/// The widest of the operations.
fn visibility(operations: &[Operation]) -> Visibility {
    let all = operations.iter().map(|operation| &operation.visibility);
    let widest = all.max_by_key(|visibility| match visibility {
        Visibility::Public(_) => 2,
        Visibility::Restricted(_) => 1,
        Visibility::Inherited => 0,
    });
    widest.cloned().unwrap_or(Visibility::Inherited)
}

fn read_trait(name: &Ident, reads: &[Operation]) -> TokenStream {
    if reads.is_empty() {
        return quote!();
    }
    let (trait_name, visibility) = (format_ident!("{name}Reads"), visibility(reads));
    let about = format!("The reads of a shared [`{name}`].");
    let signatures: Vec<TokenStream> = reads.iter().map(signature).collect();
    let docs = reads.iter().map(|operation| &operation.docs);
    let bodies = reads.iter().enumerate().map(|(at, operation)| {
        let (function, names, given) = (&operation.name, operation.names(), operation.names());
        quote!({
            match ::am_objects::Reads::here(self) {
                ::core::option::Option::Some(its_value) => its_value.run(|the_object| the_object.#function(#(#names),*)),
                ::core::option::Option::None => ::am_objects::Reads::ask(self, #at, &(#(#given,)*)),
            }
        })
    });
    quote! {
        #[doc = #about]
        #visibility trait #trait_name {
            #(#(#docs)* #signatures;)*
        }

        impl #trait_name for ::am_objects::Reads<'_, #name> {
            #(#[inline] #signatures #bodies)*
        }
    }
}

fn write_trait(name: &Ident, writes: &[Operation]) -> TokenStream {
    let (trait_name, visibility) = (format_ident!("{name}Writes"), visibility(writes));
    let about = format!("The writes of a shared [`{name}`].");
    let signatures: Vec<TokenStream> = writes.iter().map(signature).collect();
    let docs = writes.iter().map(|operation| &operation.docs);
    let bodies = writes.iter().enumerate().map(|(at, operation)| {
        let names = operation.names();
        quote!({ ::am_objects::Writes::run(self, #at, &(#(#names,)*)) })
    });
    quote! {
        #[doc = #about]
        #visibility trait #trait_name {
            #(#(#docs)* #signatures;)*
        }

        impl #trait_name for ::am_objects::Writes<'_, #name> {
            #(#signatures #bodies)*
        }
    }
}

fn signature(operation: &Operation) -> TokenStream {
    let (name, value) = (&operation.name, &operation.value);
    let arguments = operation.arguments.iter().map(|(name, ty)| quote!(#name: #ty));
    quote!(fn #name(&self, #(#arguments),*) -> ::am_objects::Call<#value>)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is refused, and where.
    #[test]
    fn what_is_no_object_says_where() {
        for (text, place, why) in [
            ("impl Trait for Q { #[write] fn f(&mut self) {} }", "Trait", "an object has operations of its own"),
            ("impl<T> Q<T> { #[write] fn f(&mut self) {} }", "<T>", "an object has no generics"),
            ("impl a::Q { #[write] fn f(&mut self) {} }", "a::Q", "an object is a type of this module"),
            ("impl Q { #[read] fn f(&self) {} }", "Q", "an object that nothing changes"),
            ("impl Q { #[read] #[write] fn f(&mut self) {} }", "write", "an operation is `#[read]` or `#[write]`"),
            ("impl Q { #[guard(true)] fn f(&mut self) {} }", "#[guard(true)]", "only an operation has a guard"),
            ("impl Q { #[read] #[guard(true)] fn f(&self) {} }", "true", "a read does not wait"),
            ("impl Q { #[read] fn f(&mut self) {} }", "&mut self", "a read changes nothing"),
            ("impl Q { #[write] fn f(self) {} }", "self", "an operation takes `&self` or `&mut self`"),
            ("impl Q { #[write] async fn f(&mut self) {} }", "async", "an operation is indivisible"),
            ("impl Q { #[write] unsafe fn f(&mut self) {} }", "unsafe", "an operation is called by other programs"),
            ("impl Q { #[write] fn f<T>(&mut self, a: T) {} }", "<T>", "an operation has no generics"),
            ("impl Q { #[write] fn f(&mut self, (a, b): (u8, u8)) {} }", "(a, b)", "an argument has a name"),
            (
                "impl Q { #[write] fn f(&mut self, a: impl Into<u8>) {} }",
                "impl Into<u8>",
                "an operation has no generics",
            ),
            (
                "impl Q { #[write] fn f(&mut self, a: &'static str) {} }",
                "&'static str",
                "an argument borrows from the message",
            ),
            ("impl Q { #[write] fn f(&mut self, a: &mut u8) {} }", "&mut u8", "an argument is a copy"),
            ("impl Q { #[write] fn f(&self) -> &str { \"\" } }", "&str", "a result travels"),
            (
                "impl Q { #[write] #[guard(true)] fn f(&mut self) { when! { true => () } } }",
                "true",
                "`when!` has the guards",
            ),
        ] {
            let error = implement(syn::parse_str(text).expect("an impl")).expect_err(text);
            let (from, to) = (error.span().start().column, error.span().end().column);
            assert_eq!((&text[from..to], error.to_string().starts_with(why)), (place, true), "{text}: {error}");
        }
    }
}
