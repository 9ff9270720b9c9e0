//! Types that contain each other, without a word about it.

#[derive(am_rpc::Wire)]
struct Folder {
    entries: Vec<Entry>,
}

#[derive(am_rpc::Wire)]
enum Entry {
    File(u32),
    Folder(Folder),
}

fn main() {
    println!("{}", <Folder as am_rpc::Schema>::SCHEMA);
}
