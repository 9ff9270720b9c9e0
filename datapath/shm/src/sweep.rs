//! Removes segments without members: this one when its last member leaves, and those of other names whose members were
//! all killed. Such a name may never be opened again.

use std::fs::File;

use crate::header::{self, Found};
use crate::locks::{self, Gate};
use crate::options::MOST_MEMBERS;
use crate::place::Place;

/// Give up membership. If no other member is left, remove the segment and the FIFOs that killed members have left.
pub(crate) fn leave(place: &Place, file: &File) {
    locks::cease(file);
    let others = (0..MOST_MEMBERS).any(|member| locks::is_alive(file, member));
    if !others && place.leads_to(file).unwrap_or(false) {
        (0..MOST_MEMBERS).for_each(|member| place.remove_fifo(member));
        place.remove();
    }
}

/// Remove abandoned segments of other names. A process that makes a segment does this. What fails is left to the next
/// one.
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

/// Remove a segment if it is one of ours and has no member. Does not wait.
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
