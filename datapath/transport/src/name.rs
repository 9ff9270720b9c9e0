//! The name of a transport at run time: `scheme:rest`.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// The name of a transport, as a user writes it: `xdp:eth1`, `udp:10.0.0.7:9000`, `loopback`. Each transport defines the
/// part behind the colon.
///
/// ```
/// use am_transport::{TransportName, NameError};
///
/// let name: TransportName = "xdp:eth1".parse()?;
/// match name.scheme() {
///     "xdp" => assert_eq!(name.rest("eth1")?, "eth1"),
///     _ => return Err(name.unknown_error(&["xdp:INTERFACE", "loopback"])),
/// }
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportName {
    scheme: String,
    rest: Option<String>,
}

/// Why a name names no transport.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name does not begin with a scheme.
    #[error("`{0}` names no transport: write SCHEME:REST, as in `xdp:eth1` or `udp:10.0.0.7:7000`")]
    Scheme(String),
    /// The part behind the scheme is missing.
    #[error(
        "`{scheme}` is not complete: write `{scheme}:{example}`, for instance; only a process of a job (docs/am-run.md) completes it itself"
    )]
    NoRest {
        /// The scheme.
        scheme: String,
        /// An example of the missing part.
        example: &'static str,
    },
    /// This kind of transport does not have the setting, or the value is bad.
    #[error("`{setting}` does not fit `{scheme}`: {hint}")]
    Setting {
        /// The scheme.
        scheme: String,
        /// The setting, as it was written.
        setting: String,
        /// What to write instead.
        hint: String,
    },
    /// A setting is given twice, so one of its values would be ignored.
    #[error("`{name}` has the setting `{key}` twice: leave one of them out")]
    Twice {
        /// The whole name.
        name: String,
        /// The key of the setting.
        key: String,
    },
    /// The program does not know the scheme.
    #[error("there is no transport `{scheme}` here; there are: {}", known.join(", "))]
    Unknown {
        /// The scheme.
        scheme: String,
        /// The transports that the program knows.
        known: Vec<&'static str>,
    },
}

crate::debug_as_display!(NameError);

impl TransportName {
    /// The kind of transport.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The part behind the scheme.
    ///
    /// # Errors
    /// The part is missing. The error text shows `example`.
    pub fn rest(&self, example: &'static str) -> Result<&str, NameError> {
        let none = || NameError::NoRest { scheme: self.scheme.clone(), example };
        self.rest.as_deref().ok_or_else(none)
    }

    /// The part behind the scheme, split at its commas: the first piece says which transport, the others are settings,
    /// `KEY=VALUE` or `KEY`, each once.
    ///
    /// ```
    /// let name: am_transport::TransportName = "udp:[::1]:7000,frame=9000,busy-poll".parse()?;
    /// let (which, settings) = name.settings("127.0.0.1:7000")?;
    /// assert_eq!(which, "[::1]:7000");
    /// assert_eq!(settings.collect::<Vec<_>>(), [("frame", Some("9000")), ("busy-poll", None)]);
    /// # Ok::<(), am_transport::NameError>(())
    /// ```
    ///
    /// # Errors
    /// As [`rest`](Self::rest), and for a setting that is given twice.
    pub fn settings(
        &self,
        example: &'static str,
    ) -> Result<(&str, impl Iterator<Item = (&str, Option<&str>)>), NameError> {
        self.settings_with_many(example, |_| false)
    }

    /// As [`settings`](Self::settings). Settings for which `many` is true may be given several times.
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

    /// The error for a bad setting. `hint` says what to write instead.
    pub fn bad_setting(&self, key: &str, value: Option<&str>, hint: impl Into<String>) -> NameError {
        let setting = value.map_or_else(|| key.to_owned(), |value| format!("{key}={value}"));
        NameError::Setting { scheme: self.scheme.clone(), setting, hint: hint.into() }
    }

    /// The error for a scheme that is none of `known`.
    pub fn unknown_error(&self, known: &[&'static str]) -> NameError {
        NameError::Unknown { scheme: self.scheme.clone(), known: known.to_vec() }
    }
}

impl FromStr for TransportName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<TransportName, NameError> {
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) => (scheme, Some(rest).filter(|rest| !rest.is_empty())),
            None => (text, None),
        };
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !scheme.starts_with(|c: char| c.is_ascii_lowercase()) || !scheme.chars().all(letters) {
            return Err(NameError::Scheme(text.into()));
        }
        Ok(TransportName { scheme: scheme.into(), rest: rest.map(Into::into) })
    }
}

impl fmt::Display for TransportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rest {
            Some(rest) => write!(f, "{}:{rest}", self.scheme),
            None => f.write_str(&self.scheme),
        }
    }
}
