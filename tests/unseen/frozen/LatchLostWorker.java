// A worker of the pool throws, its exception stays in an unread Future, and the latch is never counted down to zero.
import java.io.FileWriter;
import java.util.concurrent.*;

public class LatchLostWorker {
    public static void main(String[] args) throws Exception {
        String tmp = System.getenv("UNSEEN_TMP");
        ScheduledExecutorService metrics = Executors.newScheduledThreadPool(1);
        CountDownLatch left = new CountDownLatch(4);
        metrics.scheduleAtFixedRate(() -> {
            try (FileWriter w = new FileWriter(tmp + "/metrics.txt", true)) {
                w.write(System.currentTimeMillis() + " left=" + left.getCount() + "\n");
            } catch (Exception e) {
            }
        }, 0, 1, TimeUnit.SECONDS);
        ExecutorService pool = Executors.newFixedThreadPool(2);
        for (int i = 0; i < 4; i++) {
            final int part = i;
            pool.submit(() -> {
                double s = 0;
                for (int k = 1; k < 1000000; k++) s += Math.sqrt(k);
                String[] columns = (part == 2 ? "1" : "1,2").split(",");
                Integer.parseInt(columns[1]);
                left.countDown();
            });
        }
        System.out.println("4 parts submitted");
        left.await();
        System.out.println("all parts done");
        pool.shutdown();
        metrics.shutdown();
    }
}
