//! The modules of a crate, and the paths by which they name each other, as the lexer of Rust sees them: no comment or
//! string is mistaken for code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::slice;

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use crate::repository::Repository;

/// Methods of the standard library, of which a module here has one, too.
const OF_STANDARD_TYPES: &[&str] = &[
    "accept",
    "all",
    "append",
    "as_fd",
    "as_mut",
    "as_raw_fd",
    "as_ref",
    "as_slice",
    "as_str",
    "bind",
    "bytes",
    "clear",
    "connect",
    "contains",
    "count",
    "drain",
    "end",
    "entry",
    "extend",
    "fill",
    "filter",
    "find",
    "finish",
    "first",
    "flush",
    "for_each",
    "get",
    "get_mut",
    "hash",
    "id",
    "insert",
    "is_empty",
    "iter",
    "join",
    "last",
    "len",
    "lines",
    "load",
    "map",
    "max",
    "min",
    "name",
    "next",
    "open",
    "path",
    "poll",
    "pop",
    "port",
    "push",
    "range",
    "read",
    "remove",
    "replace",
    "reserve",
    "reset",
    "retain",
    "send",
    "set",
    "set_len",
    "size",
    "source",
    "start",
    "store",
    "swap",
    "take",
    "wait",
    "with",
    "write",
];

/// A module: a file, or a block of one. Its tests are no part of it.
#[derive(Debug)]
pub(crate) struct Module {
    /// Where it is.
    pub file: String,
    /// What it brings into scope.
    uses: Vec<Use>,
    /// Other paths of its code.
    mentions: Vec<(usize, Vec<String>)>,
    /// The methods that it defines.
    methods: Vec<String>,
    /// The methods that it calls.
    calls: Vec<(usize, String)>,
}

impl Module {
    fn new(file: &str) -> Module {
        Module { file: file.into(), uses: vec![], mentions: vec![], methods: vec![], calls: vec![] }
    }
}

#[derive(Debug)]
struct Use {
    line: usize,
    path: Vec<String>,
    /// What it is called here.
    name: String,
    /// Passed on, and not necessarily used.
    is_public: bool,
}

/// The modules of a crate, by their names from its root, which has none.
#[derive(Debug, Default)]
pub(crate) struct Modules(pub(crate) BTreeMap<Vec<String>, Module>);

impl Modules {
    /// The modules of the crate that starts with this file.
    pub(crate) fn of_crate(repository: &Repository, root: &str) -> Modules {
        let mut modules = Modules::default();
        modules.read_file(repository, &[], root, Path::new(root).parent().unwrap_or(Path::new("")));
        modules
    }

    fn read_file(&mut self, repository: &Repository, module: &[String], file: &str, folder: &Path) {
        let tokens = repository.source(file).and_then(|source| source.text.parse().ok()).unwrap_or_default();
        self.0.insert(module.to_vec(), Module::new(file));
        self.read(repository, module, folder, tokens);
    }

    /// Takes down the paths of this code of a module, however deep in brackets, and the modules in it.
    fn read(&mut self, repository: &Repository, module: &[String], folder: &Path, tokens: TokenStream) {
        let tokens = without_tests(tokens);
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let keyword = word(Some(token)).map(Ident::to_string).unwrap_or_default();
            if let TokenTree::Group(group) = token {
                self.read(repository, module, folder, group.stream());
                at += 1;
            } else if let Some(name) = word(tokens.get(at + 1)).filter(|_| keyword == "mod").map(Ident::to_string) {
                self.read_child(repository, &[module, slice::from_ref(&name)].concat(), folder, tokens.get(at + 2));
                at += 3;
            } else if let Some(module) = self.0.get_mut(module).filter(|_| keyword == "use") {
                let is_pub =
                    |back| at.checked_sub(back).is_some_and(|at| word(tokens.get(at)).is_some_and(|w| w == "pub"));
                let end = tokens[at..].iter().position(|token| is_punct(Some(token), ';'));
                let end = end.map_or(tokens.len(), |length| at + length);
                module.read_use(&[], &tokens[at + 1..end], is_pub(1) || is_pub(2));
                at = end;
            } else {
                let (path, length) = path(&tokens[at..]);
                let Some(module) = self.0.get_mut(module) else { return };
                if keyword == "fn" {
                    module.methods.extend(method(&tokens[at + 1..]));
                } else if is_punct(Some(token), '.') {
                    module.calls.extend(call(&tokens[at + 1..]).map(|name| (line(token), name)));
                } else if path.len() > 1 {
                    module.mentions.push((line(token), path));
                }
                at += length.max(1);
            }
        }
    }

    fn read_child(&mut self, repository: &Repository, child: &[String], folder: &Path, body: Option<&TokenTree>) {
        let (Some(name), Some(parent)) = (child.last(), self.0.get(&child[..child.len() - 1])) else { return };
        let inner = folder.join(name);
        if let Some(TokenTree::Group(block)) = body {
            let file = parent.file.clone();
            // Two blocks for two configurations may have one name.
            self.0.entry(child.to_vec()).or_insert(Module::new(&file));
            return self.read(repository, child, &inner, block.stream());
        }
        let files = [folder.join(format!("{name}.rs")), inner.join("mod.rs")];
        let mut files = files.iter().map(|file| file.to_string_lossy());
        if let Some(file) = files.find(|file| repository.source(file).is_some()) {
            self.read_file(repository, child, &file, &inner);
        }
    }

    /// What the own code of the module of these names needs: each path that starts in this crate, with its line.
    pub(crate) fn paths<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = (usize, &'a Vec<String>)> {
        let is_ours = move |first: &String| {
            ["crate", "super", "self"].contains(&&**first)
                || self.0.contains_key(&[names, slice::from_ref(first)].concat())
        };
        let Module { uses, mentions, .. } = &self.0[names];
        let uses = uses.iter().filter(|item| !item.is_public).map(|item| (item.line, &item.path));
        let mentions = mentions.iter().filter(move |(_, path)| path.first().is_some_and(is_ours));
        uses.chain(mentions.map(|(line, path)| (*line, path)))
    }

    /// The names of all methods, each module's once.
    pub(crate) fn methods(&self) -> impl Iterator<Item = &str> {
        self.0.values().flat_map(|module| module.methods.iter().map(String::as_str).collect::<BTreeSet<_>>())
    }

    /// The modules whose methods the own code of the module of these names calls, each with the line of a call. `owners` has how
    /// many modules of all crates define a method of a name: it is known by its name alone, so it must be the only one.
    pub(crate) fn called<'a>(
        &'a self,
        names: &[String],
        owners: &BTreeMap<&str, usize>,
    ) -> impl Iterator<Item = (usize, &'a Vec<String>)> {
        self.0[names].calls.iter().filter_map(|(line, method)| {
            let is_known = owners.get(&**method) == Some(&1) && !OF_STANDARD_TYPES.contains(&&**method);
            let owner = is_known.then(|| self.0.iter().find(|(_, module)| module.methods.contains(method)))??;
            Some((*line, owner.0))
        })
    }

    /// The module that defines what `path` names where the module `from` says it: `None` where that is no module of this
    /// crate. `is_found` says whether a part of the path has led to `from`.
    pub(crate) fn owner(&self, from: &[String], path: &[String], is_found: bool, depth: usize) -> Option<Vec<String>> {
        let Some((first, rest)) = path.split_first() else { return Some(from.to_vec()) };
        let child = [from, slice::from_ref(first)].concat();
        let from = match first.as_str() {
            _ if depth > 30 => return None,
            "crate" => &[][..],
            "self" => from,
            "super" => &from[..from.len().checked_sub(1)?],
            _ if self.0.contains_key(&child) => &child,
            _ => {
                return match self.0.get(from)?.uses.iter().find(|item| item.name == *first) {
                    Some(item) => self.owner(from, &[&item.path, rest].concat(), false, depth + 1),
                    None => is_found.then(|| from.to_vec()),
                };
            }
        };
        self.owner(from, rest, true, depth + 1)
    }
}

impl Module {
    fn read_use(&mut self, prefix: &[String], tokens: &[TokenTree], is_public: bool) {
        for tree in tokens.split(|token| is_punct(Some(token), ',')) {
            let Some(first) = tree.first() else { continue };
            let (names, length) = path(tree);
            let mut path = [prefix, &names].concat();
            if let Some(TokenTree::Group(inner)) = tree.get(length) {
                let inner: Vec<TokenTree> = inner.stream().into_iter().collect();
                self.read_use(&path, &inner, is_public);
                continue;
            }
            // `a::{self}` is `a`.
            if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
                path.pop();
            }
            let renamed = word(tree.get(length)).filter(|word| *word == "as").and_then(|_| word(tree.get(length + 1)));
            let name = renamed.map(Ident::to_string).or_else(|| path.last().cloned()).unwrap_or_default();
            self.uses.push(Use { line: line(first), path, name, is_public });
        }
    }
}

/// The tokens but for the items that only tests have.
fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let is_group = |token: &TokenTree, delimiter| matches!(token, TokenTree::Group(g) if g.delimiter() == delimiter);
    let is_for_tests = |attribute: &TokenTree| {
        is_group(attribute, Delimiter::Bracket) && attribute.to_string().replace(' ', "").starts_with("[cfg(test)")
    };
    let (mut kept, mut rest) = (vec![], tokens.into_iter().peekable());
    while let Some(token) = rest.next() {
        if !rest.peek().is_some_and(is_for_tests) {
            kept.push(token);
            continue;
        }
        rest.by_ref().find(|token| is_group(token, Delimiter::Brace) || is_punct(Some(token), ';'));
    }
    kept
}

/// The name of the method whose definition goes on so after `fn`.
fn method(tokens: &[TokenTree]) -> Option<String> {
    let mut depth = 0;
    let parameters = tokens.iter().enumerate().skip(1).find_map(|(at, token)| {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '<' => depth += 1,
            // Not the one of `->`.
            TokenTree::Punct(punct) if punct.as_char() == '>' && !is_punct(tokens.get(at - 1), '-') => depth -= 1,
            TokenTree::Group(group) if depth == 0 => return Some(group.stream()),
            _ => (),
        }
        None
    })?;
    // `&'a mut self`, whose lifetime is a mark and a word.
    let mut words = parameters.into_iter().take(5).take_while(|token| !is_punct(Some(token), ':'));
    words
        .any(|token| word(Some(&token)).is_some_and(|word| word == "self"))
        .then(|| word(tokens.first()).map(Ident::to_string))?
}

/// The name of the method that is called where the code goes on so after a dot.
fn call(tokens: &[TokenTree]) -> Option<String> {
    let name = word(tokens.first())?.to_string();
    let is_call = match tokens.get(1)? {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Parenthesis,
        // `::<T>`
        token => is_punct(Some(token), ':'),
    };
    is_call.then_some(name)
}

/// The names that these tokens start with, `::` between them, and how many tokens these are; with a last `::`, if there is one.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let (mut names, mut at) = (vec![], 0);
    while let Some(name) = word(tokens.get(at)) {
        names.push(name.to_string());
        at += 1;
        if !(is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')) {
            break;
        }
        at += 2;
    }
    (names, at)
}

fn is_punct(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

/// The identifier, if it is one.
fn word(token: Option<&TokenTree>) -> Option<&Ident> {
    if let Some(TokenTree::Ident(ident)) = token { Some(ident) } else { None }
}

/// The line that a token starts on, from 1.
fn line(token: &TokenTree) -> usize {
    token.span().start().line
}
