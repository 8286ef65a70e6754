import java.util.concurrent.*;

/** Evaluation that starts when the scheduled slot comes: main waits on a latch. */
public class ScheduledEval {
    public static void main(String[] args) throws Exception {
        String s = System.getenv("UNSEEN_SECONDS");
        long ms = (long) (Double.parseDouble(s == null ? "15" : s) * 1000);
        CountDownLatch slot = new CountDownLatch(1);
        ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
        timer.schedule(slot::countDown, ms, TimeUnit.MILLISECONDS);
        slot.await();
        timer.shutdown();
        System.out.println("alive");
    }
}
