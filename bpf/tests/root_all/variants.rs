//! Every program, with every setting that the compiler or the verifier sees as a constant, is one that this
//! kernel's verifier takes. The lab runs this on each kernel that the README names. Needs root.

use am_bpf::{Config, NodeSwitch, Probe, Raw, Steer};
use am_wire::{Address, EtherType};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};

static STEER: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steer.o"));
static SHARE: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/share.o"));
static RAW: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/raw.o"));

const OWN: Address = Address([0x02, 0, 0, 0, 0, 1]);

/// `struct config` in `decide.h`; the last two say what it counts and what it loses.
fn settings() -> impl Iterator<Item = [u8; 16]> {
    [(0, 0), (1, 0), (0, 0xff), (1, 0xff)]
        .into_iter()
        .map(|(counts, lost)| [2, 0, 0, 0, 0, 1, 0x88, 0xb5, 0x88, 0xb6, counts, 0, lost, lost, lost, lost])
}

fn load(object: &[u8], program: &str, global: Option<(&str, &[u8])>) -> Result<(), String> {
    let mut loader = EbpfLoader::new();
    if let Some((name, value)) = global {
        loader.override_global(name, value, true);
    }
    let mut ebpf: Ebpf = loader.load(object).map_err(|error| format!("{error:#?}"))?;
    let program: &mut Xdp = ebpf.program_mut(program).unwrap().try_into().unwrap();
    program.load().map_err(|error| format!("{error:#?}"))
}

/// `xdp.frags` came with 5.18.
pub(crate) fn knows_frags() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (5, 18)
}

#[test]
fn for_frames_in_one_piece() {
    for config in settings() {
        for program in ["steer_linear", "steer_probe_linear"] {
            load(STEER, program, Some(("config", &config))).unwrap_or_else(|error| panic!("{program}: {error}"));
        }
    }
    load(SHARE, "share_linear", None).unwrap_or_else(|error| panic!("{error}"));
    load(RAW, "raw_linear", Some(("ethertype", &[0x88, 0xb5]))).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn for_frames_in_several_pieces() {
    let programs = [(STEER, "steer"), (STEER, "steer_probe"), (STEER, "copy"), (SHARE, "share"), (RAW, "raw")];
    for (object, program) in programs {
        for config in settings() {
            let global: Option<(&str, &[u8])> = match program {
                "raw" => Some(("ethertype", &config[6..8])),
                "share" => None,
                _ => Some(("config", &config)),
            };
            let loaded = load(object, program, global);
            assert_eq!(loaded.is_ok(), knows_frags(), "{program}: {loaded:?}");
        }
    }
}

#[test]
fn as_the_loader_picks_them() {
    let config = Config {
        ethertype: EtherType::DEFAULT,
        own: OWN,
        node_socket: 0,
        counts_redirected: false,
        lost_per_million: 0,
    };
    for config in [config, Config { counts_redirected: true, lost_per_million: 1, ..config }] {
        Steer::load(&config).unwrap_or_else(|error| panic!("{error}"));
        Probe::load(&config).unwrap_or_else(|error| panic!("{error}"));
    }
    NodeSwitch::load().unwrap_or_else(|error| panic!("{error}"));
    Raw::load(0x88b5).unwrap_or_else(|error| panic!("{error}"));
}
