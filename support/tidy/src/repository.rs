//! The files and crates of this repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, Package, Target};

/// A text file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path from the repository's root.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl Source {
    /// Whether its name ends so.
    pub fn is(&self, extension: &str) -> bool {
        self.path.rsplit('.').next() == Some(extension)
    }

    /// Whether the lexer of the checks understands it: what it does not, they
    /// would pass over.
    pub fn lexes(&self) -> bool {
        self.text.parse::<proc_macro2::TokenStream>().is_ok()
    }

    /// A place in it.
    pub(crate) fn line(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }
}

/// A crate of the workspace.
#[derive(Clone, Debug, Default)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its directory, from the repository's root.
    pub path: String,
    /// Crates of the workspace that it needs to be built.
    pub needs: Vec<String>,
    /// Crates of the workspace that its tests need.
    pub tests_need: Vec<String>,
    /// The files that its library and its programs start with.
    pub roots: Vec<String>,
}

/// All that is checked.
#[derive(Clone, Debug)]
pub struct Repository {
    /// Every text file.
    pub sources: Vec<Source>,
    /// Every crate of the workspace.
    pub crates: Vec<Crate>,
}

/// What is built or fetched, not written.
const NOT_OURS: &[&str] = &["target", ".git", "corpus", "artifacts", "node_modules"];

impl Repository {
    /// The repository that this crate is in.
    ///
    /// # Errors
    /// When its files cannot be read, or cargo cannot describe it.
    pub fn load() -> io::Result<Repository> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let mut sources = vec![];
        collect(&root, &root, &mut sources)?;
        let manifest = root.join("Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec().map_err(io::Error::other)?;
        let ours = metadata.workspace_packages();
        Ok(Repository { sources, crates: ours.iter().map(|package| crate_of(&root, package, &ours)).collect() })
    }

    /// The file with this path.
    pub fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    /// The files in Rust.
    pub fn rust(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| source.is("rs"))
    }
}

fn collect(root: &Path, directory: &Path, sources: &mut Vec<Source>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if NOT_OURS.contains(&&*name) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, sources)?;
        } else if let Ok(text) = fs::read_to_string(&path) {
            sources.push(Source { path: below(root, &path), text });
        }
    }
    Ok(())
}

fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn crate_of(root: &Path, package: &Package, ours: &[&Package]) -> Crate {
    let needed = |test: bool| {
        let is_ours = |name: &str| ours.iter().any(|package| *package.name == name);
        let dependencies = package.dependencies.iter().map(|d| (d.name.to_string(), d.kind));
        let wanted = dependencies.filter(|(_, kind)| (*kind == DependencyKind::Development) == test);
        wanted.map(|(name, _)| name).filter(|name| is_ours(name)).collect()
    };
    let manifest = package.manifest_path.as_std_path();
    let built = |target: &&Target| target.is_lib() || target.is_bin();
    Crate {
        name: package.name.to_string(),
        path: below(root, manifest.parent().unwrap_or(manifest)),
        needs: needed(false),
        tests_need: needed(true),
        roots: package.targets.iter().filter(built).map(|t| below(root, t.src_path.as_std_path())).collect(),
    }
}
