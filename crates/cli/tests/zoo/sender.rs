//! Somebody outside of all jobs, who sends to whoever connects.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// Sends with these pauses, in milliseconds, over and over; to this port.
pub(crate) fn sender(pauses: &'static [u64], bytes: usize) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let serve = move |mut client: TcpStream| {
        for pause in pauses.iter().cycle() {
            if client.write_all(&vec![b'x'; bytes]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(*pause));
        }
    };
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || serve(client));
        }
    });
    port
}
