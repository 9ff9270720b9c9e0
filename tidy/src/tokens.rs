//! Rust as its lexer sees it: no comment or string is mistaken for code.

use std::str::FromStr;

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

/// The tokens of a text; none of one that does not lex, which a test of the
/// house sees ([`Source::lexes`](crate::repository::Source::lexes)).
pub(crate) fn lex(text: &str) -> TokenStream {
    TokenStream::from_str(text).unwrap_or_default()
}

/// The identifier, if it is one.
pub(crate) fn word(token: Option<&TokenTree>) -> Option<&Ident> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident),
        _ => None,
    }
}

/// The line that a token starts on, from 1.
pub(crate) fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// Whether the token is something in these brackets.
pub(crate) fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}
