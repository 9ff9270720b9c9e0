use super::*;
use crate::via::am::BUNDLED;

fn pair(last: u8) -> (Tcp, Tcp) {
    pair_that(last, Gather::Sender)
}

fn pair_that(last: u8, gather: Gather) -> (Tcp, Tcp) {
    let place = |ip: [u8; 4]| Place { ipv4: Some(ip.into()), ..Place::default() };
    let (a, b, watch) = (place([127, 0, 1, last]), place([127, 0, 2, last]), Watch::default());
    let open =
        |side, here, peer| Tcp::open((side, gather), "lo", 1500, (here, peer), "kernel".to_owned(), &watch).unwrap();
    let far = open(Side::Far, &b, &a);
    (open(Side::Near, &a, &b), far)
}

/// Receive until a control message arrives.
fn hear(port: &mut Tcp) -> Arrived {
    let mut all = Arrived::default();
    while all.note.is_none() {
        all.add(port.receive(32).unwrap());
    }
    all
}

#[test]
fn messages_and_notes_come_whole_whatever_the_stream_cuts() {
    let (mut near, mut far) = pair(1);
    let mut in_parts = false;
    for size in [1, 16, 33, 1500, LONGEST, LONGEST - 1, LONGEST - 1000] {
        for port in [&mut near, &mut far] {
            port.prepare(size).unwrap();
        }
        // Fill the buffers. The last message goes in parts, unless it fits exactly.
        let sent = (0..1000).take_while(|_| near.send(1).unwrap() == 1).count() as u64;
        in_parts |= !near.rest.is_empty();
        let (note, mut all) = (Note::Stop { step: size as u32 }, Arrived::default());
        let mut told = false;
        while all.note.is_none() {
            told = told || near.put(Message::Note(note_bytes(note))).unwrap();
            all.add(far.receive(32).unwrap());
            near.finish().unwrap();
        }
        assert_eq!(all, Arrived { messages: sent, bytes: sent * size as u64, wrong: 0, note: Some(note) });
    }
    assert!(in_parts);
}

#[test]
fn a_batch_is_one_write_unless_the_kernel_gathers() {
    for (last, gather, asked, sent, of_a_write) in
        [(5, Gather::Sender, 32, 32, 32), (6, Gather::Bundles, 32, BUNDLED, BUNDLED), (7, Gather::Kernel, 32, 32, 1)]
    {
        let (mut near, mut far) = pair_that(last, gather);
        for port in [&mut near, &mut far] {
            port.prepare(16).unwrap();
        }
        assert_eq!((near.send(1).unwrap(), near.batch.len()), (1, of_a_write * 16), "{gather:?}");
        assert_eq!(near.send(asked).unwrap(), sent, "{gather:?}");
        near.tell(Note::End).unwrap();
        assert_eq!(hear(&mut far).messages, sent as u64 + 1, "{gather:?}");
    }
}

#[test]
fn other_content_is_wrong() {
    let (mut near, mut far) = pair(4);
    far.prepare(1500).unwrap();
    let mut bytes = Content::of(1500).bytes().to_vec();
    bytes[1499] ^= 1;
    near.rest = bytes;
    while !near.finish().unwrap() {}
    near.tell(Note::End).unwrap();
    assert_eq!(hear(&mut far), Arrived { messages: 1, bytes: 1500, wrong: 1, note: Some(Note::End) });
}

#[test]
fn who_has_gone_is_lost() {
    let (near, mut far) = pair(2);
    far.accept().unwrap();
    drop(near);
    let error = loop {
        if let Err(error) = far.receive(1) {
            break error;
        }
    };
    assert!(matches!(error, Error::Lost(_)), "{error}");
}

#[test]
fn what_arrives_is_sent_back_where_that_is_wanted() {
    let (mut near, mut far) = pair(3);
    near.prepare(16).unwrap();
    far.prepare(16).unwrap();
    far.echo(true);
    near.send(2).unwrap();
    near.tell(Note::End).unwrap();
    assert_eq!(hear(&mut far).messages, 2);
    far.tell(Note::Ended).unwrap();
    assert_eq!(hear(&mut near).messages, 2);
}
