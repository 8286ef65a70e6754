import java.util.concurrent.*;

/** Evaluates shards in a pool; one shard is corrupt and its task dies before counting down. */
public class ShardEval {
    public static void main(String[] args) throws Exception {
        int shards = 6;
        CountDownLatch done = new CountDownLatch(shards);
        ExecutorService pool = Executors.newFixedThreadPool(2);
        double[] loss = new double[shards];
        for (int s = 0; s < shards; s++) {
            final int shard = s;
            pool.submit(() -> {
                String row = shard == 3 ? "NaN-corrupt" : "0.5" + shard;
                loss[shard] = Double.parseDouble(row);
                done.countDown();
                return null;
            });
        }
        done.await();
        pool.shutdown();
        double sum = 0;
        for (double l : loss) sum += l;
        System.out.println("mean loss " + sum / shards);
    }
}
