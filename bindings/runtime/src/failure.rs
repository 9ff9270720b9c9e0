//! The failures of a library whose calls return a negative number, and keep a text.

/// Declares the kinds of failure, each once: its number in the library's header, and its general meaning. They are the enum `Code`; a `Failure` is one
/// of them with the text of this case. One kind is `Argument`.
///
/// ```
/// am_c_runtime::failures! {
///     /// A wrong argument.
///     Argument = -1, c"an argument is wrong";
///     /// The time was over.
///     Timeout = -2, c"the time was over";
/// }
///
/// # fn main() {
/// assert_eq!(Code::of(-2), Some(Code::Timeout));
/// assert_eq!(Failure::plain(Code::Timeout).text, "the time was over");
/// assert_eq!(Failure::argument("7 is odd").code, Code::Argument);
/// assert_eq!(Failure::of(Code::Timeout)("after 3 s").text, "after 3 s");
/// # }
/// ```
#[macro_export]
macro_rules! failures {
    ($($(#[$what:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// The kinds of failure, as the header numbers them.
        #[repr(i32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $($(#[$what])* $name = $number,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: [Code; [$(Code::$name),*].len()] = [$(Code::$name),*];

            /// Its general meaning.
            pub fn text(self) -> &'static ::std::ffi::CStr {
                match self {
                    $(Code::$name => $text,)*
                }
            }

            /// The code with this number.
            pub fn of(number: ::std::ffi::c_int) -> Option<Code> {
                Code::ALL.into_iter().find(|code| *code as ::std::ffi::c_int == number)
            }
        }

        /// Why a call failed.
        #[derive(Clone, Debug)]
        pub(crate) struct Failure {
            pub(crate) code: Code,
            pub(crate) text: String,
        }

        impl Failure {
            #[cold]
            pub(crate) fn new(code: Code, text: impl ToString) -> Failure {
                Failure { code, text: text.to_string() }
            }

            /// Makes such a failure of an error.
            pub(crate) fn of<E: ToString>(code: Code) -> impl FnOnce(E) -> Failure {
                move |error| Failure::new(code, error)
            }

            #[cold]
            pub(crate) fn argument(text: impl ToString) -> Failure {
                Failure::new(Code::Argument, text)
            }

            /// The general text of the code.
            #[cold]
            pub(crate) fn plain(code: Code) -> Failure {
                Failure::new(code, code.text().to_string_lossy())
            }
        }
    };
}
