#!/usr/bin/perl
# Appends our statistics to the shared report; another job may hold the lock for a while.
use strict;
use warnings;
use Fcntl qw(:flock SEEK_END);

my $tmp = $ENV{UNSEEN_TMP};
select(undef, undef, undef, 0.05) until -e "$tmp/report.ready";

my @load = do { open(my $l, '<', '/proc/loadavg') or die $!; split ' ', <$l> };

open(my $fh, '>>', "$tmp/report.csv") or die "cannot open report: $!";
flock($fh, LOCK_EX) or die "cannot lock report: $!";
seek($fh, 0, SEEK_END);
print $fh join(',', time, @load[0 .. 2]), "\n";
close($fh);

print "alive\n";
