//! Who is reached besides those that the link itself reaches.

/// Why nobody can be introduced, or forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntroduceError {
    /// The link decides who is on it.
    #[error("`{transport}` reaches whoever is on its link: nobody needs to be introduced, leave it out")]
    Needless {
        /// The transport.
        transport: String,
    },
    /// The text is no place where somebody of this transport could be.
    #[error("`{place}` is no place: write {example}, for instance")]
    NoPlace {
        /// The text.
        place: String,
        /// What it could be.
        example: &'static str,
    },
    /// A place where no peer of this transport can be.
    #[error("`{place}` is no peer's place: {why}")]
    NoPeer {
        /// The place.
        place: String,
        /// Why, and what to write instead.
        why: String,
    },
    /// No more of them.
    #[error("{known} places are known already, and there is no room for more: forget some")]
    TooMany {
        /// How many there are.
        known: usize,
    },
    /// The system refused.
    #[error("`{place}` cannot be reached: {why}")]
    System {
        /// The place.
        place: String,
        /// What the system says, and what to do.
        why: String,
    },
}
