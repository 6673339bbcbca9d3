//! Derive macro for `gguf_types::Fields`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens, quote};
use syn::{
    Data, DeriveInput, Error, Expr, Fields, Ident, MetaNameValue, Token, Variant, parse_macro_input,
    punctuated::Punctuated,
};

/// Facts of an error, each with the names of fields that contain it, the most precise first.
const FACTS: &[(&str, &[&str])] = &[
    ("file", &["file", "path", "folder"]),
    ("tensor", &["tensor"]),
    ("key", &["key"]),
    ("expected", &["expected"]),
    ("found", &["found"]),
];
/// Fields that contain another error.
const INNER: &[&str] = &["error", "source"];

/// Implements `gguf_types::Fields` for an enum of errors.
///
/// Facts are the fields of their names. `#[fact(key = "general.alignment", found = dtype)]` at a variant states others, by
/// expressions of its fields. An only field without a name, or one named `error` or `source`, is the error within.
#[proc_macro_derive(Fields, attributes(fact))]
pub fn fields(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expanded(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expanded(input: &DeriveInput) -> Result<Tokens, Error> {
    let Data::Enum(data) = &input.data else { return Err(Error::new_spanned(input, "expected an enum")) };
    let name = &input.ident;
    let mut facts = Vec::new();
    let mut inner = Vec::new();
    for variant in &data.variants {
        let pattern = pattern(variant);
        let known = facts_of(variant)?;
        let error = inner_of(variant);
        facts.push(quote!(#pattern => ::std::vec![#known]));
        inner.push(quote!(#pattern => #error));
    }
    Ok(quote! {
        #[allow(unused_variables, unused_imports, clippy::all, clippy::pedantic)]
        impl ::gguf_types::Fields for #name {
            fn facts(&self) -> ::gguf_types::Facts {
                use ::gguf_types::derived::{Of, Value as _};
                let own: ::std::vec::Vec<(&str, ::core::option::Option<String>)> = match self { #(#facts,)* };
                let mut facts = self.inner().map(|error| error.facts()).unwrap_or_default();
                facts.extend(own.into_iter().filter_map(|(name, value)| Some((name, value?))));
                facts
            }

            fn inner(&self) -> ::core::option::Option<&dyn ::gguf_types::Problem> {
                use ::gguf_types::derived::{Known as _, Of, Unknown as _};
                match self { #(#inner,)* }
            }
        }
    })
}

/// Pattern that binds every field under its name, or an only field as `error`.
fn pattern(variant: &Variant) -> Tokens {
    let name = &variant.ident;
    match &variant.fields {
        Fields::Named(fields) => {
            let names = fields.named.iter().map(|field| &field.ident);
            quote!(Self::#name { #(#names),* })
        }
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => quote!(Self::#name(error)),
        Fields::Unnamed(_) => quote!(Self::#name(..)),
        Fields::Unit => quote!(Self::#name),
    }
}

fn facts_of(variant: &Variant) -> Result<Tokens, Error> {
    let mut stated = Vec::new();
    for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("fact")) {
        stated.extend(attribute.parse_args_with(Punctuated::<MetaNameValue, Token![,]>::parse_terminated)?);
    }
    let unknown = stated.iter().find(|given| FACTS.iter().all(|(fact, _)| !given.path.is_ident(fact)));
    if let Some(unknown) = unknown {
        return Err(Error::new_spanned(&unknown.path, "expected file, tensor, key, expected or found"));
    }
    let value = |(fact, names): &(&str, &[&str])| {
        let value: Option<Tokens> = match stated.iter().find(|given| given.path.is_ident(fact)) {
            Some(given) => Some(by_value(&given.value)),
            None => {
                names.iter().find_map(|name| field(variant, name)).map(|field| quote!(Of(#field).value()))
            }
        };
        value.map(|value| quote!((#fact, #value),))
    };
    Ok(FACTS.iter().filter_map(value).collect())
}

/// Value of a field or of another expression.
fn by_value(value: &Expr) -> Tokens {
    match value {
        Expr::Path(field) => quote!(Of(#field).value()),
        value => quote!(Of(&(#value)).value()),
    }
}

fn inner_of(variant: &Variant) -> Tokens {
    let error = match &variant.fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Some(quote!(error)),
        _ => INNER.iter().find_map(|name| field(variant, name)).map(ToTokens::into_token_stream),
    };
    error.map_or_else(|| quote!(::core::option::Option::None), |error| quote!((&Of(#error)).problem()))
}

/// The field of a name.
fn field<'a>(variant: &'a Variant, name: &str) -> Option<&'a Ident> {
    variant.fields.iter().filter_map(|field| field.ident.as_ref()).find(|ident| *ident == name)
}
