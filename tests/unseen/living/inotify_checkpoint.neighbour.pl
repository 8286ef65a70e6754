use strict; use warnings;
chdir $ENV{UNSEEN_TMP} or die;
select(undef, undef, undef, 0.1) until -e "watching";
sleep($ENV{UNSEEN_SECONDS} // 15);
open(my $f, ">", "model.part") or die;
print $f "x" x 1000;
close $f;
rename "model.part", "model.ckpt" or die;
sleep 1000000;
