//! What the dead left: segments of other names whose members were all killed, and that nobody may ever open again.

use crate::header::{self, Found};
use crate::join::leave;
use crate::locks::{self, Gate};
use crate::options::MOST_MEMBERS;
use crate::place::Place;

/// Remove them. Done by who makes a segment; what does not work is left to the next.
pub(crate) fn others(place: &Place) {
    let Ok(files) = std::fs::read_dir(place.dir()) else { return };
    for file in files.flatten() {
        let name = file.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix("am-")?.strip_suffix(".shm"));
        if let Some(other) = name.and_then(|name| place.beside(name)) {
            one(&other);
        }
    }
}

/// Remove one, if it is ours and nobody is in it. Nobody is waited for.
fn one(place: &Place) -> Option<()> {
    let file = place.open().ok()?;
    let _gate = Gate::try_pass(&file)?;
    let is_ours = matches!(header::look(&file), Ok(Found::Segment(_) | Found::Broken(_)));
    if !is_ours || !place.leads_to(&file).ok()? || (0..MOST_MEMBERS).any(|member| locks::is_alive(&file, member)) {
        return None;
    }
    leave(place, &file);
    Some(())
}
