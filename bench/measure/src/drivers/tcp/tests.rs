use super::*;
pub(crate) fn pair_that(last: u8, write_batching: WriteBatching) -> [Tcp; 2] {
    let place = |ip: [u8; 4]| SideInfo { ipv4: Some(ip.into()), ..SideInfo::default() };
    let (a, b, watch) = (place([127, 0, 1, last]), place([127, 0, 2, last]), Watch::default());
    let open = |side, here, peer| {
        Tcp::open((side, write_batching), "lo", 1500, (here, peer), "kernel".to_owned(), &watch).unwrap()
    };
    let far = open(Side::Far, &b, &a);
    [open(Side::Near, &a, &b), far]
}

/// Receive until a control message arrives.
fn hear(channel: &mut Tcp) -> Arrived {
    let mut all = Arrived::default();
    while all.control.is_none() {
        all.add(channel.receive(32).unwrap());
    }
    all
}

#[test]
fn messages_and_notes_come_whole_whatever_the_stream_cuts() {
    let [mut near, mut far] = pair_that(21, WriteBatching::Sender);
    let mut in_parts = false;
    for size in [1, 16, 33, 1500, MAX_MESSAGE, MAX_MESSAGE - 1, MAX_MESSAGE - 1000] {
        for channel in [&mut near, &mut far] {
            channel.prepare(size).unwrap();
        }
        // Fill the buffers. The last message goes in parts, unless it fits exactly.
        let sent = (0..1000).take_while(|_| near.send(1).unwrap() == 1).count() as u64;
        in_parts |= !near.rest.is_empty();
        let (control, mut all) = (ControlMessage::Stop { step: size as u32 }, Arrived::default());
        let mut told = false;
        while all.control.is_none() {
            told = told || write(&mut near.stream, &mut near.rest, &control.marked()).unwrap();
            all.add(far.receive(32).unwrap());
            write(&mut near.stream, &mut near.rest, &[]).unwrap();
        }
        assert_eq!(all, Arrived { messages: sent, bytes: sent * size as u64, wrong: 0, control: Some(control) });
    }
    assert!(in_parts);
}

#[test]
fn a_batch_is_one_write_unless_the_kernel_gathers() {
    for (last, write_batching, asked, sent, of_a_write) in [
        (5, WriteBatching::Sender, 32, 32, 32),
        (6, WriteBatching::Coalesced, 32, COALESCED_BATCH, COALESCED_BATCH),
        (7, WriteBatching::Kernel, 32, 32, 1),
    ] {
        let [mut near, mut far] = pair_that(last, write_batching);
        for channel in [&mut near, &mut far] {
            channel.prepare(16).unwrap();
        }
        assert_eq!((near.send(1).unwrap(), near.batch.len()), (1, of_a_write * 16), "{write_batching:?}");
        assert_eq!(near.send(asked).unwrap(), sent, "{write_batching:?}");
        near.send_control(ControlMessage::End).unwrap();
        assert_eq!(hear(&mut far).messages, sent as u64 + 1, "{write_batching:?}");
    }
}

#[test]
fn other_content_is_wrong() {
    let [mut near, mut far] = pair_that(24, WriteBatching::Sender);
    far.prepare(1500).unwrap();
    let mut bytes = Content::of(1500).bytes().to_vec();
    bytes[1499] ^= 1;
    near.rest = bytes;
    while !write(&mut near.stream, &mut near.rest, &[]).unwrap() {}
    near.send_control(ControlMessage::End).unwrap();
    assert_eq!(hear(&mut far), Arrived { messages: 1, bytes: 1500, wrong: 1, control: Some(ControlMessage::End) });
}

#[test]
fn who_has_gone_is_lost() {
    let [near, mut far] = pair_that(22, WriteBatching::Sender);
    far.accept().unwrap();
    drop(near);
    let error = loop {
        if let Err(error) = far.receive(1) {
            break error;
        }
    };
    assert!(matches!(error, Error::Lost(_)), "{error}");
}
