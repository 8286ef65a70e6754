"""Makes the tables in this folder with pyarrow: `python make.py FOLDER` (pyarrow 26, Pillow 12). Tests read what is kept here."""

import io, sys, pyarrow as pa, pyarrow.parquet as pq
from PIL import Image
out=sys.argv[1]
def pic(i):
    im=Image.new("RGB",(40+i,30),(i*5%256,i*11%256,200)); b=io.BytesIO(); im.save(b,"JPEG" if i%2 else "PNG"); return b.getvalue()
n=24
rows=[{"bytes":pic(i),"path":f"p{i:03}.jpg" if i%3 else None} for i in range(n)]
rows[5]={"bytes":None,"path":"beside.png"}; rows[7]={"bytes":None,"path":None}; rows[9]=None
t=pa.table({"image":pa.array(rows,pa.struct([("bytes",pa.binary()),("path",pa.string())])),"label":pa.array([i%4 for i in range(n)],pa.int64()),"text":[f"caption {i}" if i%5 else None for i in range(n)],"raw":pa.array([r["bytes"] if r and r["bytes"] else b"" for r in rows],pa.large_binary()),"score":[i/4 for i in range(n)],"ok":[i%2==0 for i in range(n)],"tags":[["a"]*(i%3) for i in range(n)]})
pq.write_table(t,out+"/hf.parquet",row_group_size=10)   # snappy, dictionary: as datasets do
pq.write_table(t,out+"/v2.parquet",row_group_size=7,data_page_version="2.0",compression="zstd",use_dictionary=False,write_page_index=True,write_page_checksum=True)
pq.write_table(t,out+"/gz.parquet",compression="gzip",column_encoding={"label":"DELTA_BINARY_PACKED"},use_dictionary=False,data_page_size=500)
for c in ["lz4","brotli","none"]: pq.write_table(t,out+f"/{c}.parquet",compression=c,row_group_size=9)
