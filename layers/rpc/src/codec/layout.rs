//! A number for the layout of a type, so that two programs can compare what they were compiled with.

/// The layout of a type, as a hash (64-bit FNV-1a) of what it is made of, in order.
///
/// ```
/// use am_rpc::codec::{Layout, Schema};
///
/// const SHAPE: u64 = Layout::new("struct").field("x", f64::SCHEMA).field("name", String::SCHEMA).finish();
/// assert_ne!(SHAPE, Layout::new("struct").field("name", String::SCHEMA).field("x", f64::SCHEMA).finish());
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Layout(u64);

impl Layout {
    /// What kind of type it is: `struct`, `u64`, `map`.
    pub const fn new(kind: &str) -> Self {
        Layout(0xCBF2_9CE4_8422_2325).name(kind)
    }

    /// The next field.
    pub const fn field(self, name: &str, schema: u64) -> Self {
        self.name("field").name(name).part(schema)
    }

    /// The next variant, whose fields follow.
    pub const fn variant(self, name: &str) -> Self {
        self.name("variant").name(name)
    }

    /// The next part without a name: an element's type, a length.
    pub const fn part(self, schema: u64) -> Self {
        let bytes = schema.to_le_bytes();
        let (mut layout, mut at) = (self, 0);
        while at < bytes.len() {
            layout = layout.byte(bytes[at]);
            at += 1;
        }
        layout
    }

    /// The number.
    #[must_use]
    pub const fn finish(self) -> u64 {
        self.0
    }

    /// A name and its end: `ab`, `c` is not `a`, `bc`. No UTF-8 has this byte.
    const fn name(self, name: &str) -> Self {
        let bytes = name.as_bytes();
        let (mut layout, mut at) = (self, 0);
        while at < bytes.len() {
            layout = layout.byte(bytes[at]);
            at += 1;
        }
        layout.byte(0xFF)
    }

    const fn byte(self, byte: u8) -> Self {
        Layout((self.0 ^ byte as u64).wrapping_mul(0x0000_0100_0000_01B3))
    }
}
