//! How a transport is named at run time: `scheme:rest`.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// The name of a transport as a user writes it: `xdp:eth1`, `udp:10.0.0.7:9000`,
/// `loopback`. What stands behind the colon is the transport's own business.
///
/// ```
/// use am_transport::{Name, NameError};
///
/// let name: Name = "xdp:eth1".parse()?;
/// match name.scheme() {
///     "xdp" => assert_eq!(name.rest("eth1")?, "eth1"),
///     _ => return Err(name.unknown(&["xdp:INTERFACE", "loopback"])),
/// }
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    scheme: String,
    rest: Option<String>,
}

/// A name that names no transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No scheme at the start.
    #[error("`{0}` names no transport: write SCHEME:REST, as in `xdp:eth1` or `udp:10.0.0.7:7000`")]
    Scheme(String),
    /// Nothing behind the scheme where something must be.
    #[error("`{scheme}` does not say which: write `{scheme}:{example}`, for instance")]
    NoRest {
        /// The scheme.
        scheme: String,
        /// What could stand behind it.
        example: &'static str,
    },
    /// Something behind the scheme where nothing may be.
    #[error("nothing comes behind `{scheme}`: leave out `:{rest}`")]
    Rest {
        /// The scheme.
        scheme: String,
        /// What stands behind it.
        rest: String,
    },
    /// A setting that this kind of transport does not have, or with no sense.
    #[error("`{setting}` does not fit `{scheme}`: {hint}")]
    Setting {
        /// The scheme.
        scheme: String,
        /// The setting, as it was written.
        setting: String,
        /// What could stand there.
        hint: String,
    },
    /// A setting that is there more than once: one of the two would go unheard.
    #[error("`{name}` says `{key}` twice: leave one of them out")]
    Twice {
        /// The name as a whole.
        name: String,
        /// What the setting is called.
        key: String,
    },
    /// A scheme that the program does not know.
    #[error("there is no transport `{scheme}` here; there are: {}", known.join(", "))]
    Unknown {
        /// The scheme.
        scheme: String,
        /// What the program knows.
        known: Vec<&'static str>,
    },
}

impl Name {
    /// Which kind of transport.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Which one of its kind.
    ///
    /// # Errors
    /// The name does not say: the error does, with `example`.
    pub fn rest(&self, example: &'static str) -> Result<&str, NameError> {
        let none = || NameError::NoRest { scheme: self.scheme.clone(), example };
        self.rest.as_deref().ok_or_else(none)
    }

    /// Which one of its kind, and its settings: what stands behind the first
    /// comma, `KEY=VALUE` or `KEY`, between commas, each once.
    ///
    /// ```
    /// let name: am_transport::Name = "udp:[::1]:7000,frame=9000,busy-poll".parse()?;
    /// let (which, settings) = name.settings("127.0.0.1:7000")?;
    /// assert_eq!(which, "[::1]:7000");
    /// assert_eq!(settings.collect::<Vec<_>>(), [("frame", Some("9000")), ("busy-poll", None)]);
    /// # Ok::<(), am_transport::NameError>(())
    /// ```
    ///
    /// # Errors
    /// As [`rest`](Self::rest), and for a setting that is there twice.
    pub fn settings(
        &self,
        example: &'static str,
    ) -> Result<(&str, impl Iterator<Item = (&str, Option<&str>)>), NameError> {
        self.settings_with_many(example, |_| false)
    }

    /// The same, where those that are `many` may be there as often as one likes.
    ///
    /// # Errors
    /// As [`settings`](Self::settings).
    pub fn settings_with_many(
        &self,
        example: &'static str,
        many: impl Fn(&str) -> bool,
    ) -> Result<(&str, impl Iterator<Item = (&str, Option<&str>)>), NameError> {
        let mut settings = self.rest(example)?.split(',');
        let which = settings.next().unwrap_or_default();
        let settings =
            settings.map(|part| part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value))));
        let mut seen = HashSet::new();
        match settings.clone().map(|(key, _)| key).find(|key| !many(key) && !seen.insert(*key)) {
            Some(key) => Err(NameError::Twice { name: self.to_string(), key: key.to_owned() }),
            None => Ok((which, settings)),
        }
    }

    /// The error for a setting that makes no sense; `hint` says what would.
    pub fn bad_setting(&self, key: &str, value: Option<&str>, hint: impl Into<String>) -> NameError {
        let setting = value.map_or_else(|| key.to_owned(), |value| format!("{key}={value}"));
        NameError::Setting { scheme: self.scheme.clone(), setting, hint: hint.into() }
    }

    /// For a kind of which there is one only.
    ///
    /// # Errors
    /// The name says more.
    pub fn alone(&self) -> Result<(), NameError> {
        match &self.rest {
            None => Ok(()),
            Some(rest) => Err(NameError::Rest { scheme: self.scheme.clone(), rest: rest.clone() }),
        }
    }

    /// The error for a scheme that is none of `known`.
    pub fn unknown(&self, known: &[&'static str]) -> NameError {
        NameError::Unknown { scheme: self.scheme.clone(), known: known.to_vec() }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) => (scheme, Some(rest).filter(|rest| !rest.is_empty())),
            None => (text, None),
        };
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !scheme.starts_with(|c: char| c.is_ascii_lowercase()) || !scheme.chars().all(letters) {
            return Err(NameError::Scheme(text.into()));
        }
        Ok(Name { scheme: scheme.into(), rest: rest.map(Into::into) })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rest {
            Some(rest) => write!(f, "{}:{rest}", self.scheme),
            None => f.write_str(&self.scheme),
        }
    }
}
