//! Any text as a URL: what is admitted is public, and reads the same when it is read again.

#![no_main]

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use netguard::{BoxFuture, FixedResolver, Guard, Host, OwnAddresses, Policy, Resolver, Target};
use tokio::runtime::{Builder, Runtime};

fuzz_target!(|text: &str| {
    let Ok(target) = Target::parse(text) else {
        return;
    };
    let again = Target::parse(target.url().as_str());
    assert_eq!(
        again.as_ref(),
        Ok(&target),
        "{text:?} reads differently the second time"
    );
    if let Host::Name(name) = target.host() {
        assert!(name.parse::<IpAddr>().is_err(), "{name} is an address");
    }
    let Some(addresses) = admitted(text) else {
        return;
    };
    for ip in addresses {
        assert!(is_public(ip), "{text:?} leads to {ip}");
    }
});

/// A guard for which every name is one public address, and somewhere to ask it.
static GUARD: LazyLock<(Guard, Runtime)> = LazyLock::new(|| {
    let guard = Guard::builder(Policy::default())
        .resolver(FixedResolver::before(Arc::new(Somewhere)))
        .own_addresses(Nowhere)
        .build();
    let runtime = Builder::new_current_thread().enable_time().build();
    (guard.expect("a guard"), runtime.expect("a runtime"))
});

/// The addresses that the guard would dial.
fn admitted(text: &str) -> Option<Vec<IpAddr>> {
    let (guard, runtime) = &*GUARD;
    let admitted = runtime.block_on(guard.check(text)).ok()?;
    let addresses = admitted.addresses().iter();
    Some(
        addresses
            .map(|address| address.socket_addr().ip())
            .collect(),
    )
}

/// What the standard library knows of addresses, which is not all, but is not ours.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !(ip.is_loopback()
                || ip.is_private()
                || ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_broadcast()
                || ip.is_documentation())
        }
        IpAddr::V6(ip) => {
            let is_mapped = ip.to_ipv4_mapped().is_some();
            let is_nat64 = ip.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
            !is_mapped && (is_nat64 || ip.segments()[0] >> 13 == 1)
        }
    }
}

struct Somewhere;

impl Resolver for Somewhere {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![IpAddr::from([93, 184, 215, 14])]) })
    }
}

struct Nowhere;

impl OwnAddresses for Nowhere {
    fn contains(&self, _: IpAddr) -> bool {
        false
    }
}
