//! A TCP node that meets itself, or one who says that he is it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::ends::{counter, place, receive, tcp, until};
use am_transport::{Transport, TransportExt};

/// The system dials from 127.0.0.1, so that where the dial comes from does not say where it went.
#[test]
fn a_node_that_dials_itself_gives_up() {
    let mut end = tcp("tcp:0.0.0.0:0");
    let port = place(&end).rsplit(':').next().unwrap().to_owned();
    end.add_peer(&format!("127.0.0.2:{port}")).unwrap();
    until("it finds itself, and knows no other place", || {
        assert!(receive(&mut end).is_empty());
        end.link_error().is_none() && counter(&end, "tcp_connections") == 0
    });
    assert_eq!((counter(&end, "tcp_dialed"), counter(&end, "tcp_accepted")), (1, 1));
}

#[test]
fn a_peer_that_claims_our_address_displaces_no_other() {
    let mut end = tcp("tcp:127.0.0.1:0");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = silent.local_addr().unwrap();
    end.add_peer(&there.to_string()).unwrap();
    let mut stranger = TcpStream::connect(place(&end)).unwrap();
    let (ours, port) = (end.caps().address.0, there.port().to_be_bytes());
    let hello = [&b"\xffam-tcp\x01"[..], &ours, &port, &1500u32.to_be_bytes()].concat();
    stranger.write_all(&hello).unwrap();
    until("he is closed", || {
        assert!(receive(&mut end).is_empty());
        counter(&end, "tcp_closed_ended") == 1
    });
    assert!(end.link_error().is_some(), "it still looks for who may be there");
    stranger.set_read_timeout(Some(crate::ends::PATIENCE)).unwrap();
    assert_eq!(stranger.read_to_end(&mut vec![]).unwrap(), hello.len(), "our hello, and the end");
}
