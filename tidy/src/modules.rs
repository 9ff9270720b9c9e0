//! The modules of a crate, and the paths by which they name each other.

use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::repository::Repository;
use crate::tokens::{is_group, lex, line, word};

/// A module: a file, or a block of one. Its tests are no part of it.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Its names from the crate's root, which has none.
    pub path: Vec<String>,
    /// Where it is.
    pub file: String,
    /// What it brings into scope.
    uses: Vec<Use>,
    /// Other paths of its code.
    mentions: Vec<(usize, Vec<String>)>,
    children: Vec<Module>,
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

/// The tree of modules that starts with this file.
pub(crate) fn modules(repository: &Repository, root: &str) -> Module {
    let folder = Path::new(root).parent().unwrap_or(Path::new(""));
    of_file(repository, vec![], root, folder)
}

fn of_file(repository: &Repository, path: Vec<String>, file: &str, folder: &Path) -> Module {
    let text = repository.source(file).map_or("", |source| &source.text);
    of_tokens(repository, Module { path, file: file.into(), ..Module::default() }, lex(text), folder)
}

fn of_tokens(repository: &Repository, mut module: Module, tokens: TokenStream, folder: &Path) -> Module {
    let tokens = without_tests(tokens);
    for at in (0..tokens.len()).filter(|&at| word(tokens.get(at)).is_some_and(|word| word == "mod")) {
        let Some(name) = word(tokens.get(at + 1)).map(ToString::to_string) else { continue };
        let (path, folder_of_child) = ([&module.path[..], std::slice::from_ref(&name)].concat(), folder.join(&name));
        let child = match tokens.get(at + 2) {
            Some(TokenTree::Group(block)) => {
                let child = Module { path, file: module.file.clone(), ..Module::default() };
                of_tokens(repository, child, block.stream(), &folder_of_child)
            }
            _ => {
                let files = [folder.join(format!("{name}.rs")), folder_of_child.join("mod.rs")];
                let mut files = files.iter().map(|file| file.to_string_lossy());
                let Some(file) = files.find(|file| repository.source(file).is_some()) else { continue };
                of_file(repository, path, &file, &folder_of_child)
            }
        };
        module.children.push(child);
    }
    module.read(&tokens);
    module
}

/// The tokens but for the items that only tests have.
fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let (mut kept, mut rest) = (vec![], tokens.into_iter().peekable());
    while let Some(token) = rest.next() {
        if !rest.peek().is_some_and(is_for_tests) {
            kept.push(token);
            continue;
        }
        let ends = |token: &TokenTree| {
            is_group(token, Delimiter::Brace) || matches!(token, TokenTree::Punct(p) if p.as_char() == ';')
        };
        rest.by_ref().find(ends);
    }
    kept
}

fn is_for_tests(attribute: &TokenTree) -> bool {
    is_group(attribute, Delimiter::Bracket) && attribute.to_string().replace(' ', "").starts_with("[cfg(test)")
}

impl Module {
    /// This module and all below it.
    pub(crate) fn each(&self, see: &mut impl FnMut(&Module)) {
        see(self);
        self.children.iter().for_each(|child| child.each(see));
    }

    /// What its own code needs: each path, with its line.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (usize, &Vec<String>)> {
        let uses = self.uses.iter().filter(|item| !item.is_public).map(|item| (item.line, &item.path));
        uses.chain(self.mentions.iter().map(|(line, path)| (*line, path)))
    }

    /// The module that defines what `path` names where the module `from` says it: `None` where that is no module of this crate.
    pub(crate) fn owner(&self, from: &[String], path: &[String]) -> Option<Vec<String>> {
        self.follow(from, path, 0)
    }

    fn follow(&self, from: &[String], path: &[String], depth: usize) -> Option<Vec<String>> {
        let (first, rest) = path.split_first().filter(|_| depth < 10)?;
        let (from, path) = match first.as_str() {
            "crate" => (&[][..], rest),
            "self" => (from, rest),
            "super" => (&from[..from.len().checked_sub(1)?], rest),
            _ => {
                let here = self.at(from)?;
                let is_known = here.children.iter().any(|child| child.is(first)) || here.item(first).is_some();
                (is_known.then_some(from)?, path)
            }
        };
        let Some(next) = path.first() else { return Some(from.to_vec()) };
        let here = self.at(from)?;
        if next == "super" {
            return self.follow(from, path, depth + 1);
        }
        if let Some(child) = here.children.iter().find(|child| child.is(next)) {
            return self.follow(&child.path, &[&["self".into()], &path[1..]].concat(), depth + 1);
        }
        match here.item(next) {
            Some(item) => self.follow(from, &[&item.path[..], &path[1..]].concat(), depth + 1),
            None => Some(from.to_vec()),
        }
    }

    fn at(&self, path: &[String]) -> Option<&Module> {
        path.iter().try_fold(self, |module, name| module.children.iter().find(|child| child.is(name)))
    }

    fn is(&self, name: &String) -> bool {
        self.path.last() == Some(name)
    }

    fn item(&self, name: &String) -> Option<&Use> {
        self.uses.iter().find(|item| item.name == *name)
    }

    /// Takes down the paths of this code, however deep in brackets, but for those of its children.
    fn read(&mut self, tokens: &[TokenTree]) {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let is_mod = word(Some(token)).is_some_and(|word| word == "mod");
            if word(Some(token)).is_some_and(|word| word == "use") {
                let is_public = at > 0 && (is_pub(&tokens[at - 1]) || at > 1 && is_pub(&tokens[at - 2]));
                let end = tokens[at..].iter().position(is_semicolon).map_or(tokens.len(), |length| at + length);
                self.read_use(&[], &tokens[at + 1..end], is_public);
                at = end;
            } else if is_mod && matches!(tokens.get(at + 2), Some(TokenTree::Group(_))) {
                at += 3;
            } else if let TokenTree::Group(group) = token {
                self.read(&without_tests(group.stream()));
                at += 1;
            } else {
                at += self.read_path(&tokens[at..]);
            }
        }
    }

    /// One path in the code; returns how many tokens it has.
    fn read_path(&mut self, tokens: &[TokenTree]) -> usize {
        let (path, length) = path(tokens);
        let starts = |name: &String| ["crate", "super", "self"].contains(&&**name);
        let is_ours = path.first().is_some_and(|name| starts(name) || self.children.iter().any(|child| child.is(name)));
        if is_ours && path.len() > 1 {
            self.mentions.push((line(&tokens[0]), path));
        }
        length.max(1)
    }

    fn read_use(&mut self, prefix: &[String], tokens: &[TokenTree], is_public: bool) {
        for tree in tokens.split(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == ',')) {
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
            let name = renamed.map(ToString::to_string).or_else(|| path.last().cloned()).unwrap_or_default();
            self.uses.push(Use { line: line(first), path, name, is_public });
        }
    }
}

fn is_pub(token: &TokenTree) -> bool {
    word(Some(token)).is_some_and(|word| word == "pub")
}

fn is_semicolon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == ';')
}

/// The names that these tokens start with, `::` between them, and how many tokens these are; with a last `::`, if there is one.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    let (mut names, mut at) = (vec![], 0);
    while let Some(name) = word(tokens.get(at)) {
        names.push(name.to_string());
        at += 1;
        if !(is_colon(at) && is_colon(at + 1)) {
            break;
        }
        at += 2;
    }
    (names, at)
}
